// What attacks in JavaScript share: each attempt prints one line, "refused NAME ERRNO" or "ESCAPED NAME", and the last line counts them.
let attempts = 0, escapes = 0;

function escaped(name, what = "") {
        attempts++;
        escapes++;
        console.log("ESCAPED", name, what);
}

function refused(name, why) {
        attempts++;
        console.log("refused", name, why);
}

// work() must throw.
function attempt(name, work) {
        let got;
        try {
                got = work();
        } catch (error) {
                refused(name, error.code || error.message.split("\n")[0]);
                return;
        }
        escaped(name, String(got).slice(0, 200));
}

function expect(name, condition, what = "") {
        if (condition)
                refused(name, "as it should");
        else
                escaped(name, what);
}

function finish() {
        console.log(attempts + " attempts");
        process.exitCode = escapes ? 1 : 0;
}

module.exports = { attempt, escaped, expect, finish, refused };
