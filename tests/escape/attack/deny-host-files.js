// A thief in JavaScript: keys, environments and the host's files by any path; and the ways out of a language-level sandbox, which lead nowhere.
// CASES: SEED-12 ESC-25
// ATTEMPTS: 50
const fs = require("fs");
const os = require("os");
const vm = require("vm");
const { attempt, expect, finish } = require("./attack.js");

for (const path of process.argv.slice(2))
        for (const prefix of ["", "/proc/self/root", "/proc/1/root", "/workspace/../..", "/proc/self/cwd/../.."])
                attempt("reading " + prefix + path, () => fs.readFileSync(prefix + path));

for (const path of ["/etc/shadow", "/root/.ssh/id_rsa", os.homedir() + "/.npmrc", os.homedir() + "/.ssh/id_rsa", "/proc/1/environ", "/etc/machine-id",
        "/proc/kcore", "/sys/class/dmi/id/product_uuid", "/var/lib/dpkg/status"])
        attempt("reading " + path, () => fs.readFileSync(path));
for (const path of ["/root", "/home", "/run", "/boot", "/opt", "/srv", "/mnt", "/media", "/sys", "/var/lib", "/var/log"]) {
        let names = [];
        try {
                names = fs.readdirSync(path);
        } catch (error) {
                // also good
        }
        expect("names in " + path, names.length === 0 || (path === "/home" && names.join() === "sandbox"), names);
}

const found = this.constructor.constructor("return process")();
const text = found.mainModule.require("child_process").execSync("id -u; ls -A /root /run 2>&1; env; cat /proc/1/environ 2>&1 || true").toString();
expect("a process through a constructor is the same user", text.startsWith(process.getuid() + "\n") && process.getuid() !== 0, text);
expect("a secret of the host in it", !/glovebox-canary-[0-9a-f]{32}/.test(text), text);
const outer = vm.runInNewContext("this.constructor.constructor('return process')()");
expect("a process out of a context is this one", outer.pid === process.pid);
attempt("becoming root", () => process.setuid(0));
attempt("becoming group root", () => process.setgid(0));
attempt("groups of root", () => process.setgroups([0]));
attempt("killing init", () => process.kill(1, "SIGKILL"));
attempt("priority", () => os.setPriority(0, -10));
attempt("writing this program", () => fs.openSync("/proc/self/exe", "r+"));
attempt("writing node", () => fs.openSync(process.execPath, "r+"));
attempt("replacing the runner", () => fs.writeFileSync("/glovebox/javascript/stdio.js", ""));
attempt("a device", () => fs.openSync("/dev/mem", "r"));
for (const name of ["spawn_sync", "fs", "tcp_wrap", "process_wrap"]) {
        let binding;
        try {
                binding = process.binding(name);
        } catch (error) {
                binding = null;
        }
        expect("rights of binding " + name, process.getuid() !== 0, binding);
}
finish();
