// Turns a value into strict JSON (the table is in docs/javascript.md). It walks with a stack of its own, counts bytes while it writes, and
// says with a path what cannot be told. See safe.js for how user code is kept from taking part.
'use strict';

const safe = require('./safe.js');
const { types } = safe;

const DEPTH_MAX = 256;
const CHUNK = 1 << 16;
const COUNT_MAX = 64 << 20; // how far beyond the limit bytes are still counted, so that the message can say how many it would be
const SURROGATE = /\p{Surrogate}/u;
const PLAIN_KEY = /^[A-Za-z_$][\w$]*$/;

class Refused {
  constructor(type, path, message) {
    this.type = type;
    this.path = path;
    this.message = message;
  }
}

const urlHref = safe.uncurry(Object.getOwnPropertyDescriptor(URL.prototype, 'href').get);
const builtinPrototypes = safe.list();
for (const builtin of [Object, Array, Function, Map, Set, RegExp, Error, String, Number, Boolean, BigInt, Symbol, Promise])
  builtinPrototypes[builtinPrototypes.length] = builtin.prototype;

// The class of an object, for messages.
function nameOf(value) {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function'))
    return typeof value;
  if (types.isProxy(value))
    return 'Proxy';
  if (typeof value === 'function')
    return 'function';
  const name = safe.attempt(() => value.constructor.name);
  return typeof name === 'string' && name !== '' ? safe.StringSlice(name, 0, 100) : 'object';
}

function pathPart(key) {
  if (typeof key === 'number')
    return `[${key}]`;
  return safe.RegExpExec(PLAIN_KEY, key) !== null ? `.${key}` : `[${safe.JSONStringify(key)}]`;
}

// A string without lone surrogates, which UTF-8 cannot carry.
function wellFormed(text) {
  let out = '';
  for (let i = 0; i < text.length; i++) {
    const code = safe.StringCharCodeAt(text, i);
    const next = code >= 0xd800 && code < 0xdc00 && i + 1 < text.length ? safe.StringCharCodeAt(text, i + 1) : 0;
    if (next >= 0xdc00 && next < 0xe000)
      out += safe.StringSlice(text, i, ++i + 1);
    else
      out += code >= 0xd800 && code < 0xe000 ? '\ufffd' : safe.FromCharCode(code);
  }
  return out;
}

// The method toJSON of a class of the user: not one that was put on a builtin prototype.
function methodToJSON(object) {
  for (let at = object, depth = 0; at !== null && depth < 100; at = safe.ObjectGetPrototypeOf(at), depth++) {
    if (types.isProxy(at))
      return undefined;
    for (let i = 0; i < builtinPrototypes.length; i++) {
      if (at === builtinPrototypes[i])
        return undefined;
    }
    const found = safe.ObjectGetOwnPropertyDescriptor(at, 'toJSON');
    if (found !== undefined)
      return typeof found.value === 'function' ? found.value : undefined;
  }
  return undefined;
}

class Writer {
  constructor(max) {
    this.max = max;
    this.lossy = false;
    this.size = 0;
    this.chunks = safe.list();
    this.chunk = '';
    this.open = new safe.Set();     // the containers that are being written
    this.stack = safe.list();
  }

  // Every way a value is refused goes through here: the path is made only then.
  refuse(type, message, key) {
    let path = '$';
    for (let i = 0; i < this.stack.length; i++)
      path += this.stack[i].part;
    throw new Refused(type, key === undefined ? path : path + pathPart(key), message);
  }

  put(text) {
    this.chunk += text;
    if (this.chunk.length >= CHUNK)
      this.flush();
  }

  flush() {
    const bytes = safe.toBytes(this.chunk);
    this.chunk = '';
    this.size += bytes.length;
    if (this.size <= this.max)
      this.chunks[this.chunks.length] = bytes;
    else if (this.size > this.max + COUNT_MAX)
      throw this.tooLarge('more than ');
  }

  tooLarge(more) {
    return new Refused('TOO_LARGE', '$', `the value has ${more}${this.size} bytes of JSON, more than the limit of ${this.max} (limits.value_bytes)`);
  }

  string(text) {
    if (safe.RegExpExec(SURROGATE, text) !== null) {
      text = wellFormed(text);
      this.lossy = true;
    }
    // In pieces, so that what is too long is not first written as a whole. A pair of surrogates stays together.
    this.chunk += '"';
    for (let at = 0; at < text.length;) {
      let to = at + CHUNK;
      if (to < text.length && (safe.StringCharCodeAt(text, to - 1) & 0xfc00) === 0xd800)
        to--;
      const quoted = safe.JSONStringify(safe.StringSlice(text, at, to));
      this.put(safe.StringSlice(quoted, 1, -1));
      at = to;
    }
    this.put('"');
  }

  nothing() {
    this.lossy = true;
    this.put('null');
  }

  base64(view, length) {
    const step = 3 * CHUNK;
    this.put('"');
    for (let at = 0; at < length; at += step)
      this.put(safe.BufferBase64Slice(view, at, at + step < length ? at + step : length));
    this.put('"');
  }

  // Writes a value that holds no others, and gives undefined; or gives the frame of a container, to be walked.
  one(value, part) {
    switch (typeof value) {
      case 'string': this.string(value); return undefined;
      case 'boolean': this.put(value ? 'true' : 'false'); return undefined;
      case 'bigint': this.put(`"${value}n"`); return undefined;
      case 'undefined': this.put('null'); return undefined;
      case 'number':
        if (safe.NumberIsFinite(value))
          this.put(`${value}`);
        else
          this.nothing();
        return undefined;
      case 'object': return value === null ? this.put('null') : this.object(value, part, true);
      default: return this.refuse('NOT_SERIALIZABLE', `a ${typeof value} has no JSON form`, part);
    }
  }

  object(value, part, mayCall) {
    if (types.isProxy(value))
      return this.refuse('NOT_SERIALIZABLE', 'a Proxy has no JSON form: copy it into a plain object', part);
    if (types.isPromise(value))
      return this.refuse('NOT_SERIALIZABLE', 'a Promise has no JSON form: await it', part);
    if (types.isBoxedPrimitive(value))
      return this.boxed(value, part);
    if (types.isDate(value)) {
      if (safe.NumberIsFinite(safe.DateGetTime(value)))
        this.put(`"${safe.DateToISOString(value)}"`);
      else
        this.nothing();
      return undefined;
    }
    if (types.isRegExp(value))
      return this.string(safe.attempt(() => `/${safe.RegExpSource(value)}/${safe.RegExpFlags(value)}`, '/?/'));
    if (safe.ArrayBufferIsView(value) || types.isAnyArrayBuffer(value))
      return this.binary(value, part);
    if (types.isWeakMap(value) || types.isWeakSet(value) || types.isGeneratorObject(value) || types.isExternal(value))
      return this.refuse('NOT_SERIALIZABLE', `a ${nameOf(value)} has no JSON form`, part);
    const href = safe.attempt(() => urlHref(value));
    if (typeof href === 'string')
      return this.string(href);
    if (mayCall) {
      const toJSON = methodToJSON(value);
      if (toJSON !== undefined)
        return this.called(value, toJSON, part);
    }
    return this.container(value, part);
  }

  boxed(value, part) {
    if (types.isStringObject(value))
      return this.one(safe.StringValueOf(value), part);
    if (types.isNumberObject(value))
      return this.one(safe.NumberValueOf(value), part);
    if (types.isBooleanObject(value))
      return this.one(safe.BooleanValueOf(value), part);
    if (types.isBigIntObject(value))
      return this.one(safe.BigIntValueOf(value), part);
    return this.refuse('NOT_SERIALIZABLE', 'a symbol has no JSON form', part);
  }

  binary(value, part) {
    if (types.isAnyArrayBuffer(value)) {
      const view = new safe.Uint8Array(value);
      return this.base64(view, safe.TypedArrayLength(view));
    }
    if (types.isDataView(value))
      return this.refuse('NOT_SERIALIZABLE', 'a DataView has no JSON form: give its buffer', part);
    if (types.isUint8Array(value) || types.isUint8ClampedArray(value))
      return this.base64(value, safe.TypedArrayLength(value));
    return this.frame(value, part, { __proto__: null, array: true, typed: true, length: safe.TypedArrayLength(value) });
  }

  // toJSON is called once; what it gives is written without asking it again.
  called(value, toJSON, part) {
    let given;
    try {
      given = safe.ReflectApply(toJSON, value, ['']);
    } catch (error) {
      return this.refuse('NOT_SERIALIZABLE', `toJSON of a ${nameOf(value)} failed: ${told(error)}`, part);
    }
    if (typeof given === 'object' && given !== null)
      return this.object(given, part, false);
    return this.one(given, part);
  }

  container(value, part) {
    if (types.isMap(value))
      return this.map(value, part);
    if (types.isSet(value)) {
      const items = safe.list();
      const values = safe.SetValues(value);
      for (let i = safe.SetSize(value); i > 0; i--)
        items[items.length] = safe.SetNext(values).value;
      return this.frame(value, part, { __proto__: null, array: true, items, length: items.length });
    }
    if (safe.ArrayIsArray(value))
      return this.frame(value, part, { __proto__: null, array: true, length: value.length });
    const names = types.isNativeError(value) ? ['name', 'message'] : safe.attempt(() => safe.ObjectKeys(value));
    if (names === undefined)
      return this.refuse('NOT_SERIALIZABLE', `the keys of a ${nameOf(value)} cannot be read`, part);
    return this.frame(value, part, { __proto__: null, array: false, names, length: names.length });
  }

  map(value, part) {
    const keys = safe.list(), items = safe.list();
    const entries = safe.MapEntries(value);
    let named = true;
    for (let i = safe.MapSize(value); i > 0; i--) {
      const entry = safe.MapNext(entries).value;
      named = named && typeof entry[0] === 'string';
      keys[keys.length] = entry[0];
      items[items.length] = entry[1];
    }
    if (named)
      return this.frame(value, part, { __proto__: null, array: false, names: keys, items, length: keys.length });
    for (let i = 0; i < keys.length; i++)
      items[i] = [keys[i], items[i]];
    return this.frame(value, part, { __proto__: null, array: true, items, length: items.length });
  }

  frame(value, part, frame) {
    if (safe.SetHas(this.open, value))
      return this.refuse('CIRCULAR', `this ${nameOf(value)} contains itself`, part);
    if (this.stack.length >= DEPTH_MAX)
      return this.refuse('TOO_DEEP', `the value is nested deeper than ${DEPTH_MAX} levels`, part);
    safe.SetAdd(this.open, value);
    // Refused at once when there is no hope: each element takes two bytes.
    if (frame.array && 2 * frame.length > this.max + COUNT_MAX) {
      this.size += 2 * frame.length;
      throw this.tooLarge('at least ');
    }
    frame.value = value;
    frame.at = 0;
    frame.first = true;
    frame.part = part === undefined ? '' : pathPart(part);
    this.put(frame.array ? '[' : '{');
    return frame;
  }

  // The member at frame.at of an array or object.
  member(frame, key) {
    if (frame.items !== undefined)
      return frame.items[frame.at];
    if (frame.typed)
      return frame.value[key];
    try {
      return frame.array && !safe.ObjectHasOwn(frame.value, key) ? undefined : frame.value[key];
    } catch (error) {
      return this.refuse('NOT_SERIALIZABLE', `its getter failed: ${told(error)}`, key);
    }
  }

  step(frame) {
    const key = frame.array ? frame.at : frame.names[frame.at];
    const value = this.member(frame, key);
    frame.at++;
    if (!frame.array && value === undefined)
      return;
    if (!frame.first)
      this.chunk += ',';
    frame.first = false;
    if (!frame.array) {
      this.string(key);
      this.chunk += ':';
    }
    const inner = this.one(value, key);
    if (inner !== undefined)
      this.stack[this.stack.length] = inner;
  }

  write(value) {
    const outer = this.one(value, undefined);
    if (outer !== undefined)
      this.stack[0] = outer;
    while (this.stack.length > 0) {
      const frame = this.stack[this.stack.length - 1];
      if (frame.at < frame.length) {
        this.step(frame);
        continue;
      }
      this.put(frame.array ? ']' : '}');
      safe.SetDelete(this.open, frame.value);
      this.stack.length--;
    }
    this.flush();
    if (this.size > this.max)
      throw this.tooLarge('');
    let json = '';
    for (let i = 0; i < this.chunks.length; i++)
      json += this.chunks[i];
    return json;
  }
}

// One short line of an error that user code threw while its value was read.
function told(error) {
  if (types.isProxy(error))
    return 'a Proxy was thrown';
  const text = safe.attempt(() => `${typeof error === 'object' && error !== null ? error.message : error}`);
  return typeof text === 'string' ? safe.StringSlice(text, 0, 200) : 'no message';
}

// Gives { json, lossy } (json as bytes), or { type, path, message } when there is no JSON of it.
function serialize(value, max) {
  const writer = new Writer(max);
  try {
    const json = writer.write(value);
    return { __proto__: null, json, lossy: writer.lossy };
  } catch (error) {
    if (error instanceof Refused)
      return error;
    return new Refused('NOT_SERIALIZABLE', '$', `the value cannot be read: ${told(error)}`);
  }
}

module.exports = { serialize, nameOf };
