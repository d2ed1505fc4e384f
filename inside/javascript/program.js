// Runs the user's code: its scope, the contract, the value, and the ways it may end.
'use strict';

const EventEmitter = require('events');
const fs = require('fs');
const Module = require('module');
const process = require('process'); // the global may be gone
const vm = require('vm');
const { displayer } = require('./display.js');
const pipe = require('./pipe.js');
const safe = require('./safe.js');
const { Invalid, columnOf } = require('./source.js');
const { serialize } = require('./value.js');
const { define } = require('./variables.js');

const ROUNDS = 32; // of promises that wait for promises
const UNSETTLED = 13, HANDLER_FAILED = 7; // Node's own exit statuses for these

// User code is called from here and from nowhere else: its stack then ends as in a plain run, in Node's own file of this name.
// next() gives { f, self, args, then } or undefined; then(result) gives what to call next.
const caller = new vm.Script(`(apply => next => () => { for (let call = next(); call !== undefined;) {
  const { f, self, args, then } = call; call = then(apply(f, self, args)); } })`, { filename: 'node:internal/main/run_main_module' })
  .runInThisContext()(safe.ReflectApply);

const { reallyExit } = process;
const listenerCount = process.listenerCount.bind(process);
const hasCapture = process.hasUncaughtExceptionCaptureCallback.bind(process);
const { writeSync } = fs;

// What a call that starts something gives back: a timer, a server, a stream. As a last expression that is no result.
const isPrototypeOf = safe.uncurry(safe.ObjectPrototype.isPrototypeOf);
const handles = [EventEmitter.prototype, ...[setTimeout, setImmediate].map((start, i) => {
  const handle = start(() => {});
  [clearTimeout, clearImmediate][i](handle);
  return Object.getPrototypeOf(handle);
})];

function isHandle(value) {
  if (typeof value !== 'object' || value === null || safe.types.isProxy(value))
    return false;
  // A Proxy among its prototypes may throw.
  return safe.attempt(() => isPrototypeOf(handles[0], value) || isPrototypeOf(handles[1], value) || isPrototypeOf(handles[2], value), false);
}

// What an Args of the user would be.
class Args {
  constructor(inputs) {
    this.params = inputs;
  }
}

function isThenable(value) {
  return safe.types.isPromise(value) || (typeof value === 'object' && value !== null && !safe.types.isProxy(value) &&
    safe.attempt(() => typeof value.then === 'function', false));
}

class Program {
  // unit: of source.js; policy: undefined when anything may be imported
  constructor(job, unit, stage, policy) {
    this.job = job;
    this.unit = unit;
    this.stage = stage;
    this.teller = stage.teller;
    this.teller.unit = unit;
    this.policy = policy;
    this.late = job.contract === 'AUTO' || job.contract === 'RESULT'; // may _result still be set?
    this.awaiting = undefined;  // what the end is being waited for
    this.lastIsOpen = false;    // is the last expression a promise that is not settled?
    this.failed = false;
    this.probe = undefined;     // reads bindings of the user's scope: value(), main(), Args(), _result()
    this.exports = undefined;
    this.kept = [];             // a Script whose import() may still be called must not be collected
  }

  start() {
    const { modules, module } = this.stage;
    modules.policy = this.policy;
    const code = this.unit.make(this.unit.isModule ? this.optionsOfModule() : { importModuleDynamically: modules.script });
    this.kept.push(code);
    this.checkImports(code);
    this.addModule(module);
    if (this.policy)
      this.policy.watch(module);
    this.watchEnds();
    pipe.started();
    setImmediate(caller(() => this.first(code)));
  }

  checkImports(code) {
    const requests = this.unit.isModule ? code.moduleRequests?.map(request => request.specifier) ?? code.dependencySpecifiers : [];
    const found = this.policy?.firstForbidden(this.unit.text, this.unit.looked, requests);
    if (!found)
      return;
    const message = this.policy.refusal(found.specifier);
    const before = safe.lines(this.unit.text.slice(0, Math.max(found.at, 0)));
    const sourceLine = this.unit.lines[before.length - 1];
    const place = { line: before.length, column: before[before.length - 1].length + 1, sourceLine };
    const traceback = `${this.teller.arrow(place)}ImportError: ${message}`;
    throw new Invalid({ type: 'ImportError', message, traceback, ...place, column: columnOf(sourceLine, place.column) }, false);
  }

  addModule(module) {
    process.mainModule = this.stage.require.main = this.unit.isModule ? undefined : module;
    if (!this.unit.isModule)
      Module._cache[module.filename] = module;
    this.exports = () => module.exports;
  }

  optionsOfModule() {
    const { modules } = this.stage;
    const options = modules.optionsFor(modules.url);
    const describe = options.initializeImportMeta;
    options.initializeImportMeta = meta => {
      describe(meta);
      meta.$glovebox = probe => {
        delete meta.$glovebox;
        this.probe = probe;
      };
    };
    return options;
  }

  // The first call into user code, once everything that the request brings is in place.
  first(code) {
    const { module, require, file, folder } = this.stage;
    this.defineGlobals(require);
    if (this.unit.isModule)
      return this.firstOfModule(code);
    const wrapper = code.runInThisContext({ displayErrors: false });
    const f = wrapper(probe => { this.probe = probe; })[0];
    return {
      f, self: module.exports, args: [module.exports, require, module, file, folder],
      then: result => {
        module.loaded = true;
        return this.unit.isAsync ? this.whenSettled(result, 'top-level await', value => this.ended(value)) : this.ended(result);
      },
    };
  }

  firstOfModule(code) {
    const linked = this.stage.modules.link(code);
    return this.whenSettled(linked, 'top-level await of a module it imports', () => ({
      f: code.evaluate, self: code, args: [],
      then: evaluated => this.whenSettled(evaluated, 'top-level await', () => {
        this.exports = () => code.namespace;
        return this.ended();
      }),
    }));
  }

  // Goes on with next() when a promise is fulfilled; one that is rejected is an unhandled rejection, as in a plain run.
  whenSettled(promise, what, next) {
    this.awaiting = what;
    let value;
    const go = caller(() => next(value));
    safe.then(safe.then(promise, settled => {
      this.awaiting = undefined;
      value = settled;
    }), go);
    return undefined;
  }

  defineGlobals(require) {
    const put = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
    put('display', displayer(this.job.contentMax));
    if (this.job.contract !== 'MAIN' && this.job.contract !== 'SCRIPT')
      put('_result', undefined);
    if (this.job.variables !== undefined)
      define(this.job.variables, require);
    this.inputs = {};
    if (this.job.inputs !== undefined) {
      try {
        this.inputs = safe.JSONParse(this.job.inputs);
      } catch (error) {
        throw new TypeError(`inputs_json is not JSON: ${error.message}`);
      }
    }
  }

  // A binding of the top level, else an export.
  find(name) {
    const bound = safe.attempt(() => this.probe[name]());
    if (typeof bound === 'function')
      return bound;
    const exported = safe.attempt(() => this.exports()[name]);
    if (typeof exported === 'function' || name !== 'main' || !this.unit.isModule)
      return typeof exported === 'function' ? exported : undefined;
    const byDefault = safe.attempt(() => this.exports().default);
    return typeof byDefault === 'function' ? byDefault : undefined;
  }

  // The code has run to its end: what is its value?
  // returned: what a `return` outside of every function gave
  ended(returned) {
    const { contract } = this.job;
    this.late = false;
    if (contract === 'SCRIPT')
      return undefined;
    const main = this.find('main');
    if (contract === 'MAIN' && main === undefined)
      throw new ReferenceError('main is not defined: the contract MAIN calls main(args), so define function main(args) { ... } and return the value');
    const args = contract === 'RESULT' ? undefined : this.find('Args');
    if (contract === 'MAIN' || (contract === 'AUTO' && main !== undefined && (this.job.inputs !== undefined || args !== undefined)))
      return this.callMain(main, args);
    if (contract === 'AUTO' && main !== undefined && !callsMain(this.unit.looked.code))
      pipe.note('main was not called: send inputs_json (even {}) or contract MAIN to have it called');
    return this.takeResult(returned);
  }

  callMain(main, args) {
    const withArgs = made => ({
      f: main, self: undefined, args: [made],
      then: result => isThenable(result)
        ? this.whenSettled(result, 'the promise of main', value => this.send(value ?? null))
        : this.send(result ?? null),
    });
    if (args === undefined)
      return withArgs(new Args(this.inputs));
    if (safe.attempt(() => safe.ObjectHasOwn(args, 'prototype'), false))
      return { f: safe.ReflectConstruct, self: undefined, args: [args, [this.inputs]], then: withArgs };
    return { f: args, self: undefined, args: [this.inputs], then: withArgs };
  }

  // _result, else the last expression, which is awaited when it is a promise; code in it may set _result.
  takeResult(returned) {
    const last = returned === undefined ? safe.attempt(() => this.probe.value()) : returned;
    this.late = true;
    if (!isThenable(last))
      return this.sendFirst(last);
    this.lastIsOpen = true;
    safe.then(last, value => {
      this.lastIsOpen = false;
      this.sendFirst(value);
    });
    return undefined;
  }

  result() {
    return safe.attempt(() => this.probe._result());
  }

  sendFirst(last) {
    const result = this.result();
    this.late = result === undefined;
    const value = result === undefined ? isHandle(last) ? undefined : last : result;
    if (value === undefined)
      return undefined;
    if (isThenable(value))
      safe.then(value, settled => settled === undefined || this.send(settled));
    else
      this.send(value);
    return undefined;
  }

  send(value) {
    const told = serialize(value, this.job.valueMax);
    if (told.json === undefined)
      pipe.valueError(told.type, told.path, told.message);
    else
      pipe.value(told.json, told.lossy);
    return undefined;
  }

  // A timer or a callback may set _result after the script has ended.
  sendLate() {
    if (!this.late || this.probe === undefined)
      return;
    this.late = false;
    const result = this.result();
    if (result !== undefined && !isThenable(result))
      this.send(result);
  }

  // Ends: process.exit(), an error nobody caught, and an await that nothing can end.
  watchEnds() {
    const uncaught = process._fatalException;
    process._fatalException = (thrown, fromPromise) => this.onUncaught(uncaught, thrown, fromPromise);
    // Not by a listener, which the user's code could count and remove; and this comes after all of theirs.
    const { emit } = process, program = this;
    let idle = false;
    process.emit = function (event, code) {
      const heard = safe.ReflectApply(emit, this, arguments);
      if (event === 'beforeExit')
        idle = true;
      else if (event === 'exit')
        program.onExit(idle, code);
      if (event === 'exit' && idle && process._exiting === true)
        leave();
      return heard;
    };
  }

  onExit(byItself, code) {
    if (code !== 0 || this.failed)
      return;
    if (byItself && this.awaiting !== undefined)
      this.onUnsettled();
    else
      this.sendLate();
    if (byItself && this.lastIsOpen)
      pipe.note('the promise that the last expression gave was never fulfilled, so it is no value');
  }

  onUnsettled() {
    this.failed = true;
    const message = `the program ended while it waited for a promise that nothing can settle any more (${this.awaiting})`;
    const error = { __proto__: null, type: 'UnsettledPromise', message, traceback: `UnsettledPromise: ${message}` };
    pipe.error(error);
    print(`Warning: Detected unsettled top-level await: ${message}\n`);
    process.exitCode = UNSETTLED;
  }

  // Gives true when the program goes on.
  onUncaught(uncaught, thrown, fromPromise) {
    const mayBeCaught = listenerCount('uncaughtException') > 0 || hasCapture() || (process.domain ?? null) !== null;
    let status = 1;
    try {
      if (mayBeCaught && safe.ReflectApply(uncaught, process, [thrown, fromPromise]))
        return true;
    } catch (second) { // what a handler of the user's throws is the error that counts, and has a status of its own
      thrown = second;
      status = HANDLER_FAILED;
    }
    this.failed = true;
    this.late = false;
    const error = this.teller.tell(thrown);
    pipe.error(error);
    if (!mayBeCaught && safe.ReflectApply(uncaught, process, [thrown, fromPromise]))
      return true;
    print(`${error.traceback}\n\nNode.js ${process.version}\n`);
    const code = process.exitCode;
    safe.ReflectApply(reallyExit, process, [status === 1 && safe.NumberIsInteger(code) ? code : status]);
    return false;
  }
}

// After the handlers of `exit`, and what they leave to promises, an end is but taking the engine apart piece by piece, for nobody: the process ends
// before that. A status that is no number is Node's to judge.
async function leave() {
  for (let i = 0; i < ROUNDS; i++)
    await undefined;
  const status = safe.attempt(() => process.exitCode ?? 0, undefined);
  if (!safe.NumberIsInteger(status) || writesAtItsEnd())
    return;
  pipe.over(status);
  safe.ReflectApply(reallyExit, process, [status]);
}

// Coverage, profiles and traces are written when the engine is taken apart.
const asked = process.execArgv.length > 1 || ['NODE_OPTIONS', 'NODE_V8_COVERAGE'].some(name => process.env[name] !== undefined);
const loadedBuiltins = process.moduleLoadList;

function writesAtItsEnd() {
  return asked || safe.attempt(() => loadedBuiltins.includes('NativeModule trace_events'), true);
}

// Standard error may be full and not blocking, or closed.
function print(text) {
  const bytes = safe.toBytes(text);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(2, safe.StringSlice(bytes, at), null, 'latin1');
    } catch (error) {
      if (error.code !== 'EAGAIN')
        return;
    }
  }
}

// Does the code itself call main, or hand it on?
function callsMain(code) {
  return /(?:[(,]\s*main\s*[,)])|\bmain\s*(?:\?\.\s*)?(?:\(|\.(?:call|apply|bind)\b)/.test(code.replace(/\bfunction\s*\*?\s*main\s*\(/g, ' '));
}

module.exports = { Program, print };
