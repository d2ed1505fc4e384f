// What an interpreter that waits does first: it takes and runs jobs of its own as it will the one that comes, so that the engine has read and
// compiled what is on the way to the first byte. Nothing is left of it that code could see.
'use strict';

const fs = require('fs');
const Module = require('module');
const net = require('net');
const { displayer } = require('./display.js');
const { Teller } = require('./errors.js');
const pipe = require('./pipe.js');
const { Policy } = require('./policy.js');
const { Program } = require('./program.js');
const { ENV, CODE, FILE, FILE_DATA, END, CONTRACT, INPUTS, VALUE_MAX, CONTENT_MAX, RUNNER_END, Reader, recordOf } = require('./records.js');
const source = require('./source.js');
const { Taker, Written } = require('./take.js');

// Each is run from its start to its value; the first is good as a module, too. What they use is what most code does.
const CODES = [
  `class Args { constructor(inputs) { this.n = inputs.n; } }
const list = [3, 1, 2].map(n => n * 2).sort((a, b) => a - b);
console.log('%s', 'text', 1, 2.5, true, null, undefined, { a: [1, 'x', { b: 2 }], f() {} }, [1, 2], new Map([[1, 2]]), new Set([1]));
console.error(\`\${list}\`);
try { null.x } catch (error) { console.log(error.message, error) }
for (const [key, value] of Object.entries({ a: 1 })) JSON.parse(JSON.stringify({ key, value }));
/(a+)b/.exec('aab');
function main(args) { return { n: args.n, list, text: 'e', when: new Date(0), inner: { a: null } }; }
`,
  `import path from 'node:path';
console.log(path.sep, await import('node:fs') !== undefined);
await new Promise(resolve => setTimeout(resolve, 0));
setImmediate(() => {});
process.nextTick(() => {});
export function main() { return [1]; }
`,
  'console.log(1)\n2',
];

// Takes what is printed: a stream like that of stdout, on a pipe, that writes nothing.
function makeSink() {
  const sink = new net.Socket({ fd: fs.openSync('/proc/self/fd/5', 'w'), readable: false, writable: true });
  sink._handle.setBlocking?.(true);
  const { write } = sink;
  sink.write = function (text, done) {
    return write.call(this, '', 'utf8', done);
  };
  return sink;
}

class RehearsedReader extends Reader {
  close() {}
}

class RehearsedFile extends Written {
  append(bytes) {
    fs.writeSync(this.fd, bytes, 0, 0, null);
  }
}

// Its files are the value pipe, to which nothing is written: the workspace stays as it is.
class RehearsedTaker extends Taker {
  create() {
    return new RehearsedFile(fs.openSync('/proc/self/fd/5', 'w'));
  }

  report() {
    fs.writeSync(4, '', null);
  }

  close() {}
}

class Rehearsal extends Program {
  static done = undefined;

  send(value) {
    super.send(value);
    setImmediate(Rehearsal.done);
  }
}

// A whole job: a variable as it is already, the code, a file, and for the runner contract AUTO, the inputs {"n":1} and two limits.
function jobOf(code) {
  const limit = '\0\0\x01\0\0\0\0\0';
  const records = [[ENV, `PATH=${process.env.PATH}`], [CODE, code], [FILE, '\0file'], [FILE_DATA, 'x'], [END, ''],
    [CONTRACT, '\x01'], [INPUTS, '{"n":1}'], [VALUE_MAX, limit], [CONTENT_MAX, limit], [RUNNER_END, '']];
  return Buffer.concat(records.map(([type, text]) => recordOf(type, Buffer.from(text))));
}

function rehearse(parts, begin, code, file, folder, done) {
  const { _fatalException, emit, mainModule } = process;
  const reader = new RehearsedReader();
  reader.give(jobOf(code));
  new RehearsedTaker(file).take(reader);
  const job = parts.job.readJob(reader);
  const stage = new parts.stage.Stage(file, folder);
  Rehearsal.done = () => {
    Object.assign(process, { _fatalException, emit, mainModule });
    delete Module._cache[file];
    delete globalThis.display;
    delete globalThis._result;
    done();
  };
  try {
    begin(parts, Rehearsal, job, stage, code);
  } catch (error) {
    if (!(error instanceof source.Invalid)) // TypeScript, of an older Node
      throw error;
    done();
  }
}

// Errors of code that runs, of code that does not compile, and what a policy says of one.
function fail(file, folder) {
  const unit = source.compile('const a = require("fs");\n  null.x;', 'main.js', file, true);
  const teller = new Teller(file, 'main.js', folder);
  teller.unit = unit;
  try {
    unit.make({}).runInThisContext({ displayErrors: false })(() => {})[0](undefined, () => {});
  } catch (error) {
    pipe.error(teller.tell(error));
  }
  try {
    source.compile('function f( {', 'main.js', file, true);
  } catch ({ error, incomplete }) {
    pipe.invalid(error, incomplete);
  }
  new Policy(['path']).firstForbidden(unit.text, unit.looked, []);
  displayer(1 << 20)({ _repr_html_: () => '<p>' });
}

// Calls done when all is warm.
function warm(parts, begin, file, folder, done) {
  const sink = makeSink(), names = ['stdout', 'stderr'];
  const plain = names.map(name => Object.getOwnPropertyDescriptor(process, name));
  for (const name of names)
    Object.defineProperty(process, name, { get: () => sink, enumerable: true, configurable: true });
  fail(file, folder);
  const left = CODES.slice();
  const next = () => {
    if (left.length > 0)
      return rehearse(parts, begin, left.shift(), file, folder, next);
    sink.destroy();
    setImmediate(() => {
      names.forEach((name, i) => Object.defineProperty(process, name, plain[i]));
      console._stdout = console._stderr = undefined; // what it is when nothing has been printed yet
      done();
    });
  };
  next();
}

module.exports = { warm };
