// The JavaScript runner: node --experimental-vm-modules runner.js [--memory=MIB] CODE ARGS... (docs/javascript.md says what it promises.)
// Descriptor 3 brings the job, descriptor 5 takes the value (common/job.h, common/value.h).
// The memory is what Node sees when it starts, for whoever starts it to tell apart (systemd/runtimes.d).
// With --wait=CODE it is started before there is a job, makes itself warm, and says on descriptor 4 that it is ready.
//
//   records.js   reads descriptor 3             source.js   fence, syntax, kind of source, last expression (scan.js helps)
//   job.js       the runner's part of it        program.js  runs it: scope, contract, ends
//   pipe.js      writes descriptor 5            stage.js    what follows from the code's place
//   safe.js      builtins, taken early          errors.js   tells an error; modules.js: what the code imports
//   value.js     value to JSON                  policy.js, variables.js, display.js, stdio.js, typescript.js: what they are called
//   warm.js, take.js: waiting, and what glovebox-start would have done with the job; prepare.js: run where all this is installed
//
// prepare() loads everything and knows nothing of a job; run() reads the job and runs it.
'use strict';

const fs = require('fs');
const path = require('path');
const vm = require('vm');

// The runner's modules are loaded here and not by Node's loader: in a third of the time, and nothing of them is left in require.cache.
const loaded = { __proto__: null };
const PREPARED = path.join(__dirname, 'prepared');
let script, makers;

// What prepare.js made: all modules as one script, with what the engine had compiled of it when they had run. Another engine compiles it again.
function readPrepared() {
  let text;
  try {
    text = fs.readFileSync(`${PREPARED}.js`, 'utf8');
  } catch {
    return {};
  }
  let cachedData;
  try {
    cachedData = fs.readFileSync(`${PREPARED}.cache`);
  } catch {
    // it is only slower
  }
  // The name is kept in what was compiled, wherever that is then: as that of a part of Node it is in no traceback.
  script = new vm.Script(text, { filename: 'node:internal/glovebox', cachedData });
  return script.runInThisContext();
}

function compile(name) {
  const filename = path.join(__dirname, name);
  return vm.compileFunction(fs.readFileSync(filename, 'utf8'), ['require', 'module'], { filename });
}

function load(name) {
  if (!name.startsWith('./'))
    return require(name);
  if (loaded[name] === undefined) {
    const made = loaded[name] = { exports: {} };
    makers ??= readPrepared();
    (makers[name] ?? compile(name))(load, made);
  }
  return loaded[name].exports;
}

function prepare() {
  load('./stdio.js');
  const parts = {};
  for (const name of ['pipe', 'records', 'job', 'source', 'policy', 'stage', 'program'])
    parts[name] = load(`./${name}.js`);
  return parts;
}

// Nothing of the runner is left where a plain run would have nothing.
function hide(file, words) {
  delete module.constructor._cache[__filename];
  process.argv.splice(1, words, file);
  process.execArgv.length = 0;
}

// Throws an Invalid of source.js when the code cannot run.
function begin({ source, policy: { Policy } }, Program, job, stage, text) {
  const { file } = stage, name = path.basename(file);
  if (/\.[cm]?ts$/.test(name))
    text = load('./typescript.js').strip(text, name);
  const unit = source.compile(text, name, file, job.contract === 'AUTO' || job.contract === 'RESULT');
  const policy = job.allowed === undefined ? undefined : new Policy(job.allowed);
  new Program(job, unit, stage, policy).start();
}

function run(parts, job, stage, text) {
  const { pipe, source: { Invalid }, program: { Program, print } } = parts;
  try {
    begin(parts, Program, job, stage, text);
  } catch (error) {
    if (!(error instanceof Invalid))
      throw error;
    pipe.invalid(error.error, error.incomplete);
    print(`${error.error.traceback}\n\nNode.js ${process.version}\n`);
    process.exitCode = 1;
  }
}

function wait(parts, file) {
  const { Taker } = load('./take.js');
  const { warm } = load('./warm.js');
  warm(parts, begin, file, __dirname, () => {
    parts.pipe.openPipe();
    const stage = new parts.stage.Stage(file, __dirname);
    stage.modules.makeNative();
    const taker = new Taker(file);
    const reader = new parts.records.Reader();
    taker.ready();
    const text = taker.take(reader);
    run(parts, parts.job.readJob(reader), stage, text);
  });
}

// For prepare.js: what the engine has compiled once a job has been run.
function saveCompiled(parts) {
  load('./warm.js').warm(parts, begin, path.join(require('os').tmpdir(), 'main.js'), __dirname, () => {
    parts.pipe.openPipe();
    fs.writeFileSync(`${PREPARED}.cache`, script.createCachedData());
  });
}

function main() {
  const parts = prepare();
  if (process.argv[2] === '--save-compiled')
    return saveCompiled(parts);
  const at = process.argv[2].startsWith('--memory=') ? 3 : 2;
  const [, waits, name] = /^(--wait=)?(.*)$/s.exec(process.argv[at]);
  const file = path.resolve(name);
  hide(file, at);
  if (waits !== undefined)
    return wait(parts, file);
  parts.pipe.openPipe();
  const job = parts.job.readJob(new parts.records.Reader());
  run(parts, job, new parts.stage.Stage(file, __dirname), fs.readFileSync(file, 'utf8'));
}

main();
