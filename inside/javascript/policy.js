// The import policy: which modules the user's code may name. A policy that keeps agents on the path, not a wall: the wall is the cell.
// What an allowed module imports itself is its own business.
'use strict';

const Module = require('module');
const safe = require('./safe.js');

class ImportError extends Error {}
Object.defineProperty(ImportError.prototype, 'name', { value: 'ImportError', configurable: true, writable: true });

class Policy {
  constructor(allowed) {
    this.allowed = safe.list();
    for (const name of allowed)
      this.allowed[this.allowed.length] = Policy.plain(name);
  }

  static plain(name) {
    return safe.StringStartsWith(name, 'node:') ? safe.StringSlice(name, 5) : name;
  }

  // A name allows what is below it: "fs" also "fs/promises".
  allows(specifier) {
    const name = Policy.plain(`${specifier}`);
    for (let i = 0; i < this.allowed.length; i++) {
      if (name === this.allowed[i] || safe.StringStartsWith(name, `${this.allowed[i]}/`))
        return true;
    }
    return false;
  }

  refusal(specifier) {
    const list = this.allowed.length === 0 ? 'none' : safe.ArrayJoin(this.allowed, ', ');
    return `module '${specifier}' is not allowed by import_policy; allowed: ${list}`;
  }

  check(specifier) {
    if (!this.allows(specifier))
      throw new ImportError(this.refusal(specifier));
  }

  // A module that the code surely names, at `at`, and may not: { specifier, at }; else null. `requests`: what an ES module imports.
  firstForbidden(text, looked, requests) {
    const calls = /(?<![\w$.])(?:require|import)\s*\(\s*(['"`])/g;
    for (let found; (found = calls.exec(looked.code)) !== null;) {
      const from = calls.lastIndex, to = looked.code.indexOf(found[1], from);
      const specifier = text.slice(from, to);
      if (to > from && !/[\\$]/.test(specifier) && /^\s*[,)]/.test(looked.code.slice(to + 1)) && !this.allows(specifier))
        return { specifier, at: found.index };
    }
    for (const specifier of requests) {
      if (!this.allows(specifier))
        return { specifier, at: text.search(new RegExp(`\\b(?:import|export)\\b[^;]*?['"]${specifier.replace(/[^\w]/g, '\\$&')}['"]`)) };
    }
    return null;
  }

  // Each require() ends in Module._load. A parent that the loader itself brought in is a module; any other is the user's code.
  watch(main) {
    const policy = this, load = Module._load, cache = Module._cache;
    Module._load = function (request, parent, isMain) {
      const known = safe.attempt(() => parent !== main && cache[parent.filename] === parent, false);
      if (!known)
        policy.check(request);
      return safe.ReflectApply(load, this, [request, parent, isMain]);
    };
    for (const name of ['binding', '_linkedBinding', 'getBuiltinModule', 'dlopen']) {
      const plain = process[name];
      if (typeof plain !== 'function')
        continue;
      process[name] = function (...names) {
        policy.check(name === 'getBuiltinModule' ? names[0] : `process.${name}`);
        return safe.ReflectApply(plain, this, names);
      };
    }
  }
}

module.exports = { Policy };
