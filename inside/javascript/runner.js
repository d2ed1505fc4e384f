// The JavaScript runner: node --experimental-vm-modules runner.js CODE ARGS... (docs/javascript.md says what it promises.)
// Descriptor 3 brings the job, descriptor 5 takes the value (common/job.h, common/value.h).
//
//   job.js       reads descriptor 3             source.js   fence, syntax, kind of source, last expression (scan.js helps)
//   pipe.js      writes descriptor 5            program.js  runs it: scope, contract, ends
//   safe.js      builtins, taken early          errors.js   tells an error
//   value.js     value to JSON                  modules.js  what it imports
//                                               policy.js, variables.js, display.js, stdio.js, typescript.js: what they are called
//
// prepare() loads everything and knows nothing of a job; run() reads the job and runs it. An interpreter may wait between the two.
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
  for (const name of ['pipe', 'job', 'source', 'errors', 'policy', 'program'])
    parts[name] = load(`./${name}.js`);
  return parts;
}

// Nothing of the runner is left where a plain run would have nothing.
function hide() {
  delete module.constructor._cache[__filename];
  process.argv.splice(1, 1);
  process.execArgv.length = 0;
}

function run({ pipe, job: { readJob }, source, errors: { Teller }, policy: { Policy }, program: { Program, print } }) {
  pipe.openPipe();
  const job = readJob();
  const file = path.resolve(process.argv[2]);
  process.argv[2] = file;
  hide();
  const name = path.basename(file);
  try {
    let text = fs.readFileSync(file, 'utf8');
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

run(prepare());
