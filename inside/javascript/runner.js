// The JavaScript runner: node --experimental-vm-modules runner.js CODE ARGS... (docs/javascript.md says what it promises.)
// Descriptor 3 brings the job, descriptor 5 takes the value (common/job.h, common/value.h).
// With --wait=CODE it is started before there is a job, makes itself warm, and says on descriptor 4 that it is ready.
//
//   records.js   reads descriptor 3             source.js   fence, syntax, kind of source, last expression (scan.js helps)
//   job.js       the runner's part of it        program.js  runs it: scope, contract, ends
//   pipe.js      writes descriptor 5            errors.js   tells an error
//   safe.js      builtins, taken early          modules.js  what it imports
//   value.js     value to JSON                  policy.js, variables.js, display.js, stdio.js, typescript.js: what they are called
//   warm.js, take.js: waiting, and what glovebox-start would have done with the job
//
// prepare() loads everything and knows nothing of a job; run() reads the job and runs it.
'use strict';

const fs = require('fs');
const path = require('path');
const vm = require('vm');

// The runner's modules are loaded here and not by Node's loader: in a third of the time, and nothing of them is left in require.cache.
const loaded = { __proto__: null };

function load(name) {
  if (!name.startsWith('./'))
    return require(name);
  if (loaded[name] === undefined) {
    const filename = path.join(__dirname, name);
    const made = loaded[name] = { exports: {} };
    vm.compileFunction(fs.readFileSync(filename, 'utf8'), ['require', 'module'], { filename })(load, made);
  }
  return loaded[name].exports;
}

function prepare() {
  load('./stdio.js');
  const parts = {};
  for (const name of ['pipe', 'records', 'job', 'source', 'errors', 'policy', 'program'])
    parts[name] = load(`./${name}.js`);
  return parts;
}

// Nothing of the runner is left where a plain run would have nothing.
function hide(file) {
  delete module.constructor._cache[__filename];
  process.argv.splice(1, 2, file);
  process.execArgv.length = 0;
}

function run({ pipe, job: { readJob }, source, errors: { Teller }, policy: { Policy }, program: { Program, print } }, file, reader, text) {
  const job = readJob(reader);
  const name = path.basename(file);
  try {
    text ??= fs.readFileSync(file, 'utf8');
    if (/\.[cm]?ts$/.test(name))
      text = load('./typescript.js').strip(text, name);
    const unit = source.compile(text, name, file, job.contract === 'AUTO' || job.contract === 'RESULT');
    const policy = job.allowed === undefined ? undefined : new Policy(job.allowed);
    new Program(job, unit, new Teller(file, name, __dirname, unit), policy, file).start();
  } catch (error) {
    if (!(error instanceof source.Invalid))
      throw error;
    pipe.invalid(error.error, error.incomplete);
    print(`${error.error.traceback}\n\nNode.js ${process.version}\n`);
    process.exitCode = 1;
  }
}

// Until descriptor 3 brings a job; what is in its way then is told on descriptor 4.
function wait(parts, file, reader) {
  const { Taker } = load('./take.js');
  parts.pipe.openPipe();
  const taker = new Taker(file);
  taker.ready();
  let text;
  try {
    text = taker.take(reader);
    process.argv.push(...taker.args);
  } catch (error) {
    taker.fail(error);
  }
  run(parts, file, reader, text);
}

function main() {
  const parts = prepare();
  const reader = new parts.records.Reader();
  const [, waits, name] = /^(--wait=)?(.*)$/s.exec(process.argv[2]);
  const file = path.resolve(name);
  hide(file);
  if (waits === undefined) {
    parts.pipe.openPipe();
    run(parts, file, reader);
  } else {
    load('./warm.js').warm(file, __dirname, () => wait(parts, file, reader));
  }
}

main();
