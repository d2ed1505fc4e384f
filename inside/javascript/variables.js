// variables_json: each member of the object becomes a global of the user's code. A member that is {"type": ..., ...} of a kind in the
// table is made into what it says; anything else stays the plain value it is.
'use strict';

const KINDS = {
  __proto__: null,
  date: { keys: ['value'], make: ({ value }) => date(value) },
  datetime: { keys: ['value'], make: ({ value }) => date(value) },
  bytes: { keys: ['base64'], make: ({ base64 }) => bytes(base64) },
  module: { keys: ['name'], make: ({ name }, require) => module_(name, require) },
};

function date(value) {
  const made = new Date(value);
  if (typeof value !== 'string' || Number.isNaN(made.getTime()))
    throw new TypeError('value must be a date in ISO 8601, such as "2024-06-19T12:00:00Z"');
  return made;
}

function bytes(base64) {
  if (typeof base64 !== 'string' || !/^[A-Za-z0-9+/_-]*={0,2}\s*$/.test(base64))
    throw new TypeError('base64 must be text in base64');
  return Buffer.from(base64, 'base64');
}

// "node:path", "fs/promises", or "path.posix": a member of a module.
function module_(name, require) {
  if (typeof name !== 'string' || name === '')
    throw new TypeError('name must be the name of a module');
  try {
    return require(name);
  } catch (error) {
    const dot = name.lastIndexOf('.');
    if (dot <= 0 || error?.code !== 'MODULE_NOT_FOUND')
      throw new Error(`the module ${name} cannot be loaded: ${`${error?.message}`.split('\n')[0]}`);
    const holder = module_(name.slice(0, dot), require);
    const member = name.slice(dot + 1);
    if (holder === null || holder === undefined || !(member in Object(holder)))
      throw new Error(`the module ${name.slice(0, dot)} has no ${member}`);
    return holder[member];
  }
}

function made(value, require) {
  if (typeof value !== 'object' || value === null || typeof value.type !== 'string')
    return value;
  const kind = KINDS[value.type];
  if (kind === undefined || Object.keys(value).length !== kind.keys.length + 1 || !kind.keys.every(key => Object.hasOwn(value, key)))
    return value;
  return kind.make(value, require);
}

function define(text, require) {
  let variables;
  try {
    variables = JSON.parse(text);
  } catch (error) {
    throw new TypeError(`variables_json is not JSON: ${error.message}`);
  }
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables))
    throw new TypeError('variables_json must be an object: its members become global variables');
  const names = Object.keys(variables), { defineProperty } = Object, globals = globalThis, Failure = TypeError, { stringify } = JSON;
  const attempt = (name, f) => {
    try {
      return f();
    } catch (error) {
      throw new Failure(`variables_json: the variable ${stringify(name)} cannot be set: ${error.message}`);
    }
  };
  // All are made before the first is set, which may have the name of a builtin.
  const values = names.map(name => attempt(name, () => made(variables[name], require)));
  for (let i = 0; i < names.length; i++)
    attempt(names[i], () => defineProperty(globals, names[i], { value: values[i], writable: true, configurable: true, enumerable: true }));
}

module.exports = { define };
