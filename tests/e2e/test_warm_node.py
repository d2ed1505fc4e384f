"""A Node.js that waited for its job behaves as one that was started for it: what a program sees of itself, and how it ends, in both.

Known to differ, and left out here: process.uptime(), performance.now() and what was used so far (memory, CPU) count from the start of the process;
/proc/self/cmdline has --wait=, /proc/self/environ the variables of the start; process.moduleLoadList and ids of async_hooks tell what ran before, and the
first console.log of a fresh one opens process.stderr, too."""
import json
import os
import re
import resource

import pytest

from kit.daemon import Daemon
from kit.machine import wait_until
from kit.stubs import pb

FRESH = {"NODE_OF_THE_TEST": "1"}  # a variable that Node.js could read when it starts: an interpreter that waits is no good then


def let_nice_be_lowered():
    """As a service with LimitNICE= has it: the spawner may pass the limit on, programs are not to have it."""
    try:
        resource.setrlimit(resource.RLIMIT_NICE, (20, 20))
    except ValueError:
        pass  # not allowed here: the test that needs it says so


@pytest.fixture(scope="module")
def daemon():
    none = {"pool-min": 0, "pool-max": 0}
    d = Daemon(config={"spawner": {"pool": "yes"}}, runtimes={"javascript": {"pool-min": 3, "pool-max": 3}, "javascript-module": none, "typescript": none})
    d.take_baseline = lambda: None
    enter = d.cgroup.enter
    d.cgroup.enter = lambda: (enter(), let_nice_be_lowered())
    d.start()
    yield d
    d.stop()
    d.remove()


def started(call):
    return pb.Start.Name(call.of("started")[0].start).removeprefix("START_")


def warm(daemon, code, **fields):
    """The pool is filled in the background, so the first tries may come too early."""
    calls = []

    def one():
        calls.append(daemon.run(code, "javascript", **fields))
        return started(calls[-1]) == "WARM"
    assert wait_until(one, 30, 0.2), f"never one that waited: {[started(call) for call in calls]}"
    return calls[-1]


def both(daemon, code, **fields):
    env = fields.pop("env", {})
    fresh = daemon.run(code, "javascript", env={**env, **FRESH}, **fields)
    assert started(fresh) in ("READY", "COLD")
    return warm(daemon, code, env=env, **fields), fresh


FACTS = r"""
const fs = require('fs'), os = require('os'), Module = require('module');
const keys = object => Reflect.ownKeys(object).map(String).sort();
const read = name => fs.readFileSync(`/proc/self/${name}`, 'utf8').replace(new RegExp(`\\b${process.getuid()}\\b`, 'g'), 'UID'); // each cell has its own
const status = Object.fromEntries(read('status').split('\n').map(line => line.split(':\t')).filter(([name]) =>
  /^(Name|Umask|Groups|Uid|Gid|Seccomp|NoNewPrivs|Threads|Cap.*|Sig(Ign|Cgt|Blk))$/.test(name)));
const stat = read('stat').split(') ')[1].split(' ');
const { NODE_OF_THE_TEST, ...env } = process.env;
const before = [process._getActiveHandles().length, process._getActiveRequests().length, process.getActiveResourcesInfo?.()];
const about = stream => [stream.constructor.name, stream.writable, stream.isTTY, stream.fd, stream._type, stream.listenerCount('error'), stream.eventNames()];
console.log('to stdout');
const links = fs.readdirSync('/proc/self/fd').map(fd => { try { return fs.readlinkSync(`/proc/self/fd/${fd}`).replace(/\d+/g, 'N') } catch { return '' } });
_result = {
  argv: process.argv, argv0: process.argv0, execArgv: process.execArgv, execPath: process.execPath, title: process.title, cwd: process.cwd(), env,
  platform: [process.version, process.arch, process.config.variables.napi_build_version], exitCode: process.exitCode, features: process.features,
  module: { ...module, children: module.children.length }, isMain: require.main === module, cache: keys(require.cache), own: Object.keys(require.extensions),
  globalPaths: Module.globalPaths, filenames: [__filename, __dirname], resolve: require.resolve.paths('x'),
  globals: keys(globalThis), process: keys(process), console: keys(console), memory: keys(process.memoryUsage()), mainModule: process.mainModule === module,
  listeners: process.eventNames().map(name => [`${name}`, process.listenerCount(name)]), max: process.getMaxListeners(),
  capture: process.hasUncaughtExceptionCaptureCallback(), before, stdout: about(process.stdout),
  limit: Error.stackTraceLimit, ids: [process.getuid() === process.getgid(), process.getgroups().length, process.umask()],
  machine: [os.cpus().length, os.totalmem(), os.homedir(), os.hostname(), os.tmpdir(), os.getPriority(), process.constrainedMemory?.()],
  heap: require('v8').getHeapStatistics().heap_size_limit, locale: Intl.DateTimeFormat().resolvedOptions(), flags: process.allowedNodeEnvironmentFlags.size,
  status, group: [stat[2] === stat[3], stat[4], stat[15], stat[16]], limits: read('limits'), oom: read('oom_score_adj'),
  links: links.sort(), files: [fs.readdirSync('.'), fs.readdirSync('/tmp'), fs.readdirSync('/dev/shm'), fs.readdirSync(os.homedir())],
  depth: (() => { let n = 0; const f = () => { n++; f() }; try { f() } catch {} return n > 5000 })(),
};
0
"""


def test_a_program_sees_the_same_of_itself(daemon):
    calls = both(daemon, FACTS, args=["a", "--b"], env={"HOME": "/tmp", "MINE": "x=y"}, timezone="Asia/Tokyo")
    facts = [json.loads(call.result.value_json) for call in calls]
    assert len(facts[0]) >= 35
    for key, fresh in facts[1].items():
        assert facts[0][key] == fresh, f"{key}: {facts[0][key]} waited, {fresh} was started"
    assert facts[0]["argv"][2:] == ["a", "--b"] and facts[0]["env"]["MINE"] == "x=y"


NICER = r"""
const os = require('os'), now = os.getPriority(), told = [];
for (const nice of [now + 1, now]) try { os.setPriority(nice); told.push('done') } catch (e) { told.push(e.info.code) }
_result = [require('fs').readFileSync('/proc/self/limits', 'utf8').match(/Max nice priority +(\d+) +(\d+)/).slice(1), told];
0
"""


def test_it_cannot_take_back_a_nice_value(daemon):
    """Where this machine lets the spawner have a limit above 0, a waiting program must not have it; elsewhere none has."""
    for call in both(daemon, NICER):
        assert json.loads(call.result.value_json) == [["0", "0"], ["done", "EACCES"]], started(call)


PROGRAMS = {
    "an error nobody catches": "function f() { null.x }\nf()",
    "an error in a timer": "setTimeout(() => { throw new RangeError('late') }, 1)",
    "a rejection nobody handles": "Promise.reject(new Error('no'))",
    "a handler of uncaught errors": "process.on('uncaughtException', (e, from) => { console.log(e.message, from); process.exitCode = 4 }); null.x",
    "an error's own stack": "console.log(new Error('x').stack); setTimeout(() => console.log(new Error('y').stack)); Promise.resolve().then(() => console.log("
                            "new Error('z').stack))",
    "a syntax error": "let a = ;",
    "exit status": "process.exitCode = 3; process.on('exit', c => console.log('exit', c))",
    "what is left to promises at the end": "process.on('exit', async () => { for (let i = 0; i < 20; i++) await null; console.log('late'); process.exitCode = 5 })",
    "process.exit": "console.log('x'.repeat(200000)); process.exit(9)",
    "a signal": "process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 1000)",
    "an await that nothing settles": "await new Promise(() => {})",
    "standard input": "process.stdin.on('data', d => console.log(d.toString().toUpperCase())).on('end', () => console.log('end'))",
    "standard input at once": "console.log(require('fs').readFileSync(0, 'utf8').length)",
    "order of what is queued": "setTimeout(() => console.log('timer'), 500); setImmediate(() => console.log('immediate')); process.nextTick(() => console.log('tick'));"
                               "Promise.resolve().then(() => console.log('promise')); queueMicrotask(() => console.log('micro')); console.log('first')",
    "a worker": "const { Worker } = require('worker_threads'); new Worker(`const { parentPort } = require('worker_threads'); parentPort.postMessage("
                "[process.argv.length, process.execArgv, Object.keys(require.cache).length, typeof display, process.env.MINE])`, { eval: true })"
                ".on('message', m => console.log(JSON.stringify(m))).on('exit', c => console.log(c))",
    "children": "const { execFileSync, fork, spawnSync } = require('child_process'); console.log(execFileSync('sh', ['-c', 'echo $MINE $PWD; ls /proc/self/fd |"
                " wc -l; read x; echo $x'], { input: 'in' }).toString(), spawnSync(process.execPath, ['-p', 'process.execArgv.length+1']).stdout.toString())",
    "a fork of itself": "if (process.send) process.send([process.argv.length, process.execArgv]); else require('child_process').fork(__filename)"
                        ".on('message', m => console.log(JSON.stringify(m)))",
    "an ES module": "import fs, { readFileSync } from 'node:fs';\nconsole.log(import.meta.url, typeof require, this, fs.readFileSync === readFileSync,"
                    " (await import('node:path')).sep);\nexport default 5",
    "import in a script": "import('node:os').then(os => console.log(typeof os.cpus, typeof require))",
    "a last expression": "const list = [1, 2];\nlist.map(n => n * 2)",
    "a server on loopback": "const http = require('http'); const s = http.createServer((q, r) => r.end('hi')).listen(0, '127.0.0.1', () => http.get("
                            "{ port: s.address().port }, r => r.on('data', d => { console.log(d.toString()); s.close() })))",
    "both streams": "console.error('e1'); console.log('o1'); console.error('e2'); console.table([{ a: 1 }]); console.trace('t')",
    "files by threads": "require('fs').writeFile('x', 'y', () => require('fs').readFile('x', 'utf8', (e, t) => console.log(e, t)))",
    "dates": "console.log(new Date(0).toString(), new Date(0).toLocaleString(), (1234.5).toLocaleString())",
    "intervals": "let n = 0; const i = setInterval(() => { if (++n === 3) { clearInterval(i); console.log(n) } }, 1)",
    "wasm and crypto": "console.log(WebAssembly.validate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])), require('crypto').createHash('md5').update('a').digest('hex'))",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_does_the_same(daemon, name):
    calls = both(daemon, PROGRAMS[name], stdin=b"some input\n", env={"MINE": "mine"}, timezone="Asia/Tokyo")
    seen = []
    for call in calls:
        result = call.result
        seen.append((call.outcome, result.exit_code, result.signal, call.stdout, call.stderr, result.value_json, result.message, result.error,
                     [(file.path, file.change) for file in result.files]))
    assert seen[0] == seen[1]
    assert calls[0].stdout or calls[0].stderr or calls[0].result.value_json or calls[0].result.signal, "the program shows nothing"


def test_two_that_waited_have_nothing_random_in_common(daemon):
    code = "[Math.random(), require('crypto').randomUUID(), require('crypto').randomBytes(8).toString('hex'), require('fs').mkdtempSync('/tmp/x')]"
    first, second = (json.loads(warm(daemon, code).result.value_json) for _ in range(2))
    assert all(a != b for a, b in zip(first, second))


def test_what_needs_another_start_gets_one(daemon):
    for name, value, code, printed in (("NODE_OPTIONS", "--stack-trace-limit=3", "Error.stackTraceLimit", "3"),
                                       ("LC_ALL", "de_DE.UTF-8", "(1234.5).toLocaleString()", '"1.234,5"'),
                                       ("NODE_PATH", "/workspace/lib", "require('mine')", "7")):
        call = daemon.run(code, "javascript", env={name: value}, files={"lib/mine.js": b"module.exports = 7"})
        assert started(call) != "WARM" and call.result.value_json == printed, (name, call.result)
    call = daemon.run("console.log(1); console.error(2); console.log(3)", "javascript", merge_streams=True)
    assert started(call) != "WARM" and call.stdout == b"1\n2\n3\n"


def test_a_job_that_cannot_be_is_told_as_by_a_fresh_one(daemon):
    """The server refuses most such jobs before; this one shows only in the cell."""
    for env in ({}, FRESH):
        call = daemon.run("1", "javascript", working_dir="none", env=env)
        assert call.refused is not None and call.refused.fields.keys() == {"working_dir"}, call


@pytest.mark.parametrize("env, code, wanted", [
    ({"NODE_V8_COVERAGE": "/workspace/out"}, "1", r"out/coverage-.*\.json"),
    ({"NODE_OPTIONS": "--heap-prof"}, "1", r"Heap.*\.heapprofile"),
    ({}, "require('trace_events').createTracing({ categories: ['node.perf'] }).enable(); performance.mark('seen-by-the-trace'); 1", r"node_trace\.1\.log"),
])
def test_what_node_writes_at_its_end_is_whole(daemon, env, code, wanted):
    """Coverage, profiles, traces: an end that is told ahead would lose them."""
    how = {"env": env, "collect": ["**"]}
    call = warm(daemon, code, **how) if not env else daemon.run(code, "javascript", **how)
    (path, content_id), = [(file.path, file.content_id) for file in call.result.files if re.fullmatch(wanted, file.path)]
    text = b"".join(piece.data for piece in call.of("content") if piece.content_id == content_id)
    assert json.loads(text), path
