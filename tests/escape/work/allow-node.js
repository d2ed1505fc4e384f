// Node: files without io_uring, fetch, worker threads, wasm, child processes, timers, streams, crypto, who one is.
// CASES: ESC-13 SES-13
"use strict";
const assert = require("assert");
const { execFileSync, fork, spawn } = require("child_process");
const crypto = require("crypto");
const fs = require("fs");
const http = require("http");
const os = require("os");
const { pipeline } = require("stream/promises");
const { Worker, isMainThread, parentPort } = require("worker_threads");
const zlib = require("zlib");

async function files() {
        await fs.promises.writeFile("/workspace/a", "content");
        assert.equal(await fs.promises.readFile("/workspace/a", "utf8"), "content");
        fs.writeFileSync("/tmp/b", Buffer.alloc(1 << 20));
        await pipeline(fs.createReadStream("/tmp/b"), zlib.createGzip(), fs.createWriteStream("/workspace/b.gz"));
        await fs.promises.cp("/workspace/a", "/workspace/c");
        // Watching by polling; fs.watch has no inotify here (it would tell who runs what in the host's /usr).
        const seen = new Promise(resolve => fs.watchFile("/workspace/d", { interval: 20 }, resolve));
        // Again and again: what is there when a watcher looks for the first time is no change to it.
        const writer = setInterval(() => fs.appendFileSync("/workspace/d", "x"), 10);
        await seen;
        clearInterval(writer);
        fs.unwatchFile("/workspace/d");
}

async function network() {
        const server = http.createServer((request, response) => response.end("served"));
        await new Promise(resolve => server.listen(0, "127.0.0.1", resolve));
        const answer = await fetch("http://127.0.0.1:" + server.address().port + "/");
        assert.equal(await answer.text(), "served");
        server.closeAllConnections();
        server.close();
        await assert.rejects(fetch("http://192.0.2.1/"));
}

function workers() {
        return Promise.all([1, 2, 3].map(n => new Promise((resolve, reject) => {
                const worker = new Worker(__filename, { workerData: n });
                worker.on("message", resolve);
                worker.on("error", reject);
        })));
}

async function wasm() {
        // (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add)
        const bytes = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0,
                10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11]);
        const { instance } = await WebAssembly.instantiate(bytes);
        assert.equal(instance.exports.add(40, 2), 42);
        const memory = new WebAssembly.Memory({ initial: 1, maximum: 100 });
        memory.grow(10);
}

async function processes() {
        assert.equal(execFileSync("echo", ["hi"]).toString(), "hi\n");
        const child = spawn("cat");
        child.stdin.end("through");
        let text = "";
        for await (const chunk of child.stdout)
                text += chunk;
        assert.equal(text, "through");
        const forked = fork("/workspace/child.js");
        assert.equal((await new Promise(resolve => forked.once("message", resolve))).n, 7);
        forked.disconnect();
}

async function main() {
        fs.writeFileSync("/workspace/child.js", "process.send({ n: 7 }); process.on('disconnect', () => process.exit());");
        await files();
        await network();
        assert.deepEqual((await workers()).length, 3);
        await wasm();
        await processes();
        const user = os.userInfo();
        assert.ok(user.username && user.uid === process.getuid() && fs.statSync(user.homedir).isDirectory());
        fs.writeFileSync(os.homedir() + "/x", "x");
        assert.equal(os.tmpdir(), "/tmp");
        assert.ok(os.cpus().length >= 1 && os.totalmem() > 0);
        await new Promise((resolve, reject) => crypto.scrypt("a", "b", 32, error => error ? reject(error) : resolve()));
        crypto.generateKeyPairSync("ed25519");
        await new Promise(resolve => setTimeout(resolve, 10));
        console.log("works");
}

if (isMainThread)
        main().catch(error => {
                console.error(error);
                process.exit(1);
        });
else
        parentPort.postMessage("here");
