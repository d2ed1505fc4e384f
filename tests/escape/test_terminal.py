"""The daemon started from a terminal: nothing that a cell does comes out there, or goes in. (ESC-09)"""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

import pytest

from kit import machine
from kit.daemon import Daemon, Lines
from range import programs
from range.programs import Tally


class AtTerminal(Daemon):
    """A daemon whose standard input and controlling terminal is a terminal of ours."""

    def spawn(self):
        self.master, self.slave = pty.openpty()

        def take():
            self.cgroup.enter()
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(self.command(), stdin=self.slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=take,
                                        env={**os.environ, **self._environment})
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)

    def typed(self):
        """Bytes that wait in the terminal to be read, and whether anything was shown on it."""
        waiting = struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0\0\0\0"))[0]
        return waiting, bool(select.select([self.master], [], [], 0.3)[0])


@pytest.mark.parametrize("waived", [[], ["seccomp", "landlock", "keyring"]], ids=["whole", "without_filters"])
def test_ESC_09_no_keystroke_reaches_the_terminal(waived):
    """Also where the filter of system calls is waived: a cell has a session of its own and no descriptor of any terminal."""
    daemon = AtTerminal(waive=machine.missing_controllers() + waived).start()
    try:
        os.write(daemon.master, b"")
        for name in ("deny-terminal.c", "deny-descriptors.c"):
            program = programs.named(name)
            for runtime in program.runtimes:
                Tally(program.run(daemon, runtime)).check_all_refused(program.attempts)
        assert daemon.typed() == (0, False)
        daemon.verify()
    finally:
        daemon.stop()
        daemon.remove()
        os.close(daemon.master)
        os.close(daemon.slave)


def test_the_terminal_would_tell():
    """What the test above looks at does show a keystroke."""
    master, slave = pty.openpty()
    os.write(master, b"x\n")
    waiting = machine.wait_until(lambda: struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, b"\0\0\0\0"))[0], 2)
    assert waiting == 2 and select.select([master], [], [], 0.3)[0]
    os.close(master)
    os.close(slave)
