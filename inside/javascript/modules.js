// What the user's code imports. Packages, Node's own modules and CommonJS files are Node's loader's to load. An ES module beside the code is
// linked to it here, when the code is one too: so that both share their bindings, in every Node, also where the file's name does not say so.
'use strict';

const fs = require('fs');
const Module = require('module');
const path = require('path');
const vm = require('vm');
const { fileURLToPath, pathToFileURL } = require('url');
const { makeModule, moduleError, isModuleText } = require('./source.js');
const safe = require('./safe.js');

// import() as if written in the file, done by Node's own loader.
function nativeImport(file) {
  const native = new Module(file, null);
  native.filename = file;
  native.paths = Module._nodeModulePaths(path.dirname(file));
  native._compile('module.exports = (specifier, options) => options === undefined ? import(specifier) : import(specifier, options)', file);
  return native.exports;
}

// { type: 'json' } as the second argument of import(), for older and newer engines.
function optionsOf(attributes) {
  const keys = attributes === undefined || attributes === null ? [] : safe.ObjectKeys(attributes);
  if (keys.length === 0)
    return undefined;
  const given = { __proto__: null };
  for (let i = 0; i < keys.length; i++)
    given[keys[i]] = `${attributes[keys[i]]}`;
  return { __proto__: null, with: given, assert: given };
}

// What Node's package.json says of a .js file.
function packageType(file) {
  for (let folder = path.dirname(file); ; folder = path.dirname(folder)) {
    const found = safe.attempt(() => safe.JSONParse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')).type ?? 'none');
    if (found !== undefined || folder === path.dirname(folder))
      return found;
  }
}

class Modules {
  constructor(file) {
    this.file = file;
    this.url = pathToFileURL(file).href;
    this.policy = undefined;    // for the user's own code
    this.native = undefined;    // import() as if written in the file
    this.beside = new Map();    // href: { module, done: a promise of its evaluation, or undefined }, or { failure }
    this.script = async (specifier, _, attributes) => {
      this.policy?.check(specifier);
      return this.makeNative()(specifier, optionsOf(attributes));
    };
  }

  // When it is needed: most code has no import(). One that waits has it made already.
  makeNative() {
    return this.native ??= nativeImport(this.file);
  }

  // Options for vm: import() in a module of this address.
  optionsFor(url) {
    return {
      identifier: url,
      importModuleDynamically: async (specifier, _, attributes) => {
        const own = this.find(specifier, url);
        return own === undefined ? this.load(specifier, url, attributes) : this.evaluated(own);
      },
      initializeImportMeta: meta => this.describe(meta, url),
    };
  }

  // Only the user's own code is asked for what it imports.
  check(specifier, from) {
    if (from === this.url)
      this.policy?.check(specifier);
  }

  load(specifier, from, attributes) {
    const isPath = /^\.{1,2}\//.test(specifier);
    return this.makeNative()(isPath ? new URL(specifier, from).href : specifier, optionsOf(attributes));
  }

  // The entry of a module beside the code, undefined for everything else.
  find(specifier, from) {
    this.check(specifier, from);
    if (!/^(?:\.{0,2}\/|file:)/.test(specifier))
      return undefined;
    const { href } = new URL(specifier, from);
    if (!this.beside.has(href))
      this.beside.set(href, safe.attempt(() => this.make(href)));
    const own = this.beside.get(href);
    if (own?.failure !== undefined)
      throw own.failure;
    return own;
  }

  make(href) {
    const file = fileURLToPath(href);
    if (!/\.m?js$/.test(file) || /[\\/]node_modules[\\/]/.test(file))
      return undefined;
    const text = fs.readFileSync(file, 'utf8');
    const type = file.endsWith('.mjs') ? 'module' : packageType(file);
    if (type !== 'module' && (type === 'commonjs' || !isModuleText(text, path.basename(file))))
      return undefined;
    try {
      return { module: makeModule(text, this.optionsFor(href)), done: undefined };
    } catch (error) {
      return { failure: moduleError(error, text, file) };
    }
  }

  // For link(): the module that an import stands for.
  async linked(specifier, referencing, attributes) {
    const own = this.find(specifier, referencing.identifier);
    if (own !== undefined)
      return own.module;
    const namespace = await this.load(specifier, referencing.identifier, attributes);
    const names = Object.keys(namespace);
    return new vm.SyntheticModule(names, function () {
      for (const name of names)
        this.setExport(name, namespace[name]);
    }, { identifier: specifier });
  }

  link(module) {
    return module.link((specifier, referencing, { attributes, assert } = {}) => this.linked(specifier, referencing, attributes ?? assert));
  }

  async evaluated(own) {
    if (own.module.status === 'unlinked')
      await this.link(own.module);
    own.done ??= own.module.status === 'evaluated' || own.module.status === 'evaluating' ? Promise.resolve() : own.module.evaluate();
    await own.done;
    return own.module.namespace;
  }

  describe(meta, url) {
    const file = fileURLToPath(url);
    const require = Module.createRequire(file);
    meta.url = url;
    if (Number(process.versions.node.split('.')[0]) >= 20)
      Object.assign(meta, { dirname: path.dirname(file), filename: file });
    meta.resolve = specifier => {
      const found = /^\.{0,2}\//.test(specifier) ? path.resolve(path.dirname(file), specifier) : require.resolve(specifier);
      return path.isAbsolute(found) ? pathToFileURL(found).href : found.startsWith('node:') ? found : `node:${found}`;
    };
  }
}

module.exports = { Modules };
