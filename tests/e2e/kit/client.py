"""The command line client of the build, and one whose three streams are a terminal."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from .machine import seconds

LINE = re.compile(rb"glovebox: [^\n]*\n")
# what `run` says on a terminal where limits are waived, as on this machine perhaps
NOTE = re.compile(rb"glovebox: not enforced by this server[^\r\n]*\r\n")


class Client:
    """Starts the client of the build, with the daemon's address in GLOVEBOX_SERVER."""

    def __init__(self, daemon):
        self.daemon, self.running = daemon, []
        self.environment = {**{k: v for k, v in os.environ.items() if not k.startswith("GLOVEBOX")}, "GLOVEBOX_SERVER": daemon.socket,
                            "TERM": "xterm"}

    def start(self, *arguments, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.environment, **options}
        process = subprocess.Popen([str(self.daemon.client), *map(str, arguments)], **options)
        self.running.append(process)
        return process

    def __call__(self, *arguments, input=None, deadline=60, **options):
        """(status, stdout, stderr) of a client that ran to its end."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        out, err = process.communicate(input, timeout=seconds(deadline))
        assert b"Sanitizer" not in (err or b""), err.decode(errors="replace")
        return process.returncode, out, err

    def run(self, code, *arguments, runtime="bash", **options):
        return self("run", "-r", runtime, "-c", code, *arguments, **options)

    def stop(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()


class Terminal:
    """A client whose three streams are a terminal."""

    def __init__(self, client, *arguments, columns=100, rows=24, **options):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.master)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = client.start(*arguments, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own_terminal, **options)
        os.close(slave)
        self.seen = b""

    def read(self, wanted, deadline=15):
        """Reads until `wanted` was seen, or to the end when it is None. What is said of waived limits is left out of the answer."""
        end = time.monotonic() + seconds(deadline)
        while wanted is None or not re.search(wanted, self.seen):
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{wanted!r} did not come; the terminal shows {self.seen[-1500:]!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b""  # the other side is closed
            if not data:
                assert wanted is None, f"{wanted!r} never came; the terminal shows {self.seen[-1500:]!r}"
                break
            self.seen += data
        return NOTE.sub(b"", self.seen)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data):
        os.write(self.master, data)

    def close(self):
        os.close(self.master)
