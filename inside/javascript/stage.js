// What follows from the code's place alone: made before the code is known, where an interpreter waits for it.
'use strict';

const Module = require('module');
const path = require('path');
const { Teller } = require('./errors.js');
const { Modules } = require('./modules.js');

class Stage {
  // file: absolute path of the code; folder: the runner's own
  constructor(file, folder) {
    this.file = file;
    this.folder = path.dirname(file);
    this.teller = new Teller(file, path.basename(file), folder);
    this.modules = new Modules(file);
    this.require = Module.createRequire(file);
    // The main module, as Node would have made it.
    this.module = Object.assign(new Module(file, null), { id: '.', filename: file, paths: Module._nodeModulePaths(this.folder) });
  }
}

module.exports = { Stage };
