"""What attacks in Python share: each attempt prints one line, "refused NAME ERRNO" or "ESCAPED NAME", and the last line counts them."""
import errno
import sys

attempts = escapes = 0


def escaped(name, what=""):
    global attempts, escapes
    attempts += 1
    escapes += 1
    print("ESCAPED", name, what)


def refused(name, why):
    global attempts
    attempts += 1
    print("refused", name, why)


def attempt(name, work):
    """work() must raise an OSError. What it returns otherwise is what was gained."""
    try:
        got = work()
    except OSError as error:
        refused(name, errno.errorcode.get(error.errno, error.errno))
    else:
        escaped(name, repr(got)[:200])


def expect(name, condition, what=""):
    """What must be true where the attack fails."""
    if condition:
        refused(name, "as it should")
    else:
        escaped(name, what)


def finish():
    print(attempts, "attempts")
    sys.exit(1 if escapes else 0)
