"""The runner's part of a job (common/job.h), read from its descriptor to the end."""
from posix import close, read

CONTRACT, INPUTS, VARIABLES, IMPORT_RESTRICT, IMPORT_ALLOWED, VALUE_MAX, CONTENT_MAX, RUNNER_END = range(14, 22)
AUTO, MAIN, RESULT, SCRIPT = 1, 2, 3, 4
RECORD_MAX = 1024 * 1024


class Job:
    """inputs, variables: JSON as bytes, None = not given. allowed: names of modules, None = no import policy."""

    def __init__(self):
        self.contract = AUTO
        self.inputs = self.variables = self.allowed = None
        self.value_max, self.content_max = 1 << 20, 16 << 20

    def take(self, kind, data):
        if kind == CONTRACT:
            self.contract = data[0]
        elif kind == INPUTS:
            self.inputs = (self.inputs or b"") + data
        elif kind == VARIABLES:
            self.variables = (self.variables or b"") + data
        elif kind == IMPORT_RESTRICT:
            self.allowed = self.allowed or []
        elif kind == IMPORT_ALLOWED:
            self.allowed = (self.allowed or []) + [data.decode("utf-8", "replace")]
        elif kind == VALUE_MAX:
            self.value_max = int.from_bytes(data, "little")
        elif kind == CONTENT_MAX:
            self.content_max = int.from_bytes(data, "little")
        else:
            raise ValueError(f"a record of type {kind} has no place in the runner's part of a job")


def take(fd):
    """Reads the job and closes the descriptor. What is wrong with it is our own fault, so it is an error and no guess is made."""
    job, data, at = Job(), bytearray(), 0

    def have(size):
        while len(data) - at < size:
            more = read(fd, RECORD_MAX)
            if not more:
                raise ValueError("the job ends too early")
            data.extend(more)

    while True:
        have(8)
        kind, size = int.from_bytes(data[at:at + 4], "little"), int.from_bytes(data[at + 4:at + 8], "little")
        if size > RECORD_MAX:
            raise ValueError(f"a record of the job has {size} bytes, more than {RECORD_MAX}")
        at += 8
        if kind == RUNNER_END:
            close(fd)
            return job
        have(size)
        job.take(kind, bytes(data[at:at + size]))
        del data[:at + size]
        at = 0
