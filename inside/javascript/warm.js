// What an interpreter that waits does first: it runs code as it will run that of the job, so that the engine has read and compiled what is on
// the way to the first byte. Nothing is left of it that code could see.
'use strict';

const fs = require('fs');
const Module = require('module');
const net = require('net');
const { displayer } = require('./display.js');
const { Teller } = require('./errors.js');
const pipe = require('./pipe.js');
const { Policy } = require('./policy.js');
const { Program } = require('./program.js');
const source = require('./source.js');

// Each is run from its start to its value.
const SCRIPTS = [
  `const fs = require('node:fs'), path = require('path');
class Args { constructor(inputs) { this.n = inputs.n; } }
const list = [3, 1, 2].map(n => n * 2).sort((a, b) => a - b);
console.log('%s', 'text', 1, 2.5, true, null, undefined, { a: [1, 'x', { b: 2 }], f() {} }, [1, 2], new Map([[1, 2]]), new Set([1]));
console.error(\`\${list}\`);
try { null.x } catch (error) { console.log(error.message) }
for (const [key, value] of Object.entries({ a: 1 })) JSON.parse(JSON.stringify({ key, value }));
/(a+)b/.exec('aab');
function main(args) { return { n: args.n, list, text: 'é', when: new Date(0), inner: { a: null } }; }
`,
  `console.log(1);
const wait = ms => new Promise(resolve => setTimeout(resolve, ms));
await wait(0); setImmediate(() => {}); process.nextTick(() => {});
[1, 2].length`,
  `import path from 'node:path';
console.log(path.sep, await import('node:fs') !== undefined);
export const name = 'x';
await null;
export function main() { return name; }
`,
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

class Rehearsal extends Program {
  send(value) {
    super.send(value);
    setImmediate(this.done);
  }
}

function rehearse(text, file, folder, done) {
  const { _fatalException, emit, mainModule } = process;
  const unit = source.compile(text, 'main.js', file, true);
  const job = { contract: 'AUTO', inputs: '{"n":1}', variables: undefined, allowed: undefined, valueMax: 1 << 20, contentMax: 1 << 20 };
  const program = new Rehearsal(job, unit, new Teller(file, 'main.js', folder, unit), undefined, file);
  program.done = () => {
    Object.assign(process, { _fatalException, emit, mainModule });
    if (mainModule === undefined)
      delete process.mainModule;
    delete Module._cache[file];
    for (const name of ['display', '_result'])
      delete globalThis[name];
    done();
  };
  program.start();
}

// Errors of code that runs, of code that does not compile, and what a policy says of one.
function fail(file, folder) {
  const unit = source.compile('const a = require("fs");\n  null.x;', 'main.js', file, true);
  const teller = new Teller(file, 'main.js', folder, unit);
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
function warm(file, folder, done) {
  const sink = makeSink();
  console._stdout = console._stderr = sink;
  fail(file, folder);
  const left = SCRIPTS.slice();
  const next = () => {
    if (left.length > 0)
      return rehearse(left.shift(), file, folder, next);
    console._stdout = console._stderr = undefined; // what it is when nothing has been printed yet
    sink.destroy();
    setImmediate(done);
  };
  next();
}

module.exports = { warm };
