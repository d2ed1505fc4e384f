"""Fixtures of the end-to-end tests: a daemon for all tests, others with settings of their own, and the look round after each test."""
import faulthandler
import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from kit.client import Client, Terminal  # noqa: E402
from kit.daemon import Daemon  # noqa: E402
from kit.machine import seconds  # noqa: E402


class TooLong(Exception):
    pass


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """No test may hang: after its limit an exception ends it, wherever it is."""
    mark = item.get_closest_marker("limit")
    limit = seconds(mark.args[0] if mark else 120)

    def expired(signum, where):
        faulthandler.dump_traceback()
        raise TooLong(f"{item.name} took longer than {limit:.0f} s")

    old = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Where everything must work, a skipped test is a failed one."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("GLOVEBOX_MUST_WORK"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and GLOVEBOX_MUST_WORK is set: {report.longrepr}"


def pytest_sessionstart(session):
    if os.geteuid() != 0:
        pytest.exit("the end-to-end tests start the real spawner and need root", 2)


class Shared:
    """The daemon most tests share; started when first asked for, and again when a test broke it."""
    daemon = None
    failures = 0

    @classmethod
    def get(cls):
        if cls.daemon is None:
            try:
                cls.daemon = Daemon().start()
            except AssertionError as error:
                cls.failures += 1
                if cls.failures == 3:
                    pytest.exit(f"the daemon does not start: {error}", 3)
                raise
        return cls.daemon

    @classmethod
    def drop(cls):
        daemon, cls.daemon = cls.daemon, None
        if daemon:
            daemon.stop()
            daemon.remove()


@pytest.fixture(scope="session", autouse=True)
def end_of_shared_daemon():
    yield
    Shared.drop()


def killed_by(request):
    mark = request.node.get_closest_marker("kills")
    return mark.args if mark else ()


@pytest.fixture
def daemon(request):
    """The shared daemon. After the test it is looked over; one that did not stand up to the test is replaced."""
    daemon = Shared.get()
    yield daemon
    try:
        daemon.verify(killed_by(request))
    except BaseException:
        print(daemon.log[-6000:])
        try:
            Shared.drop()
        except AssertionError as error:
            print(error)
        raise


@pytest.fixture
def make_daemon(request):
    """make_daemon(config={"server": {"max-executions": 2}}) → a daemon of the test's own, looked over and stopped after it."""
    made = []

    def make(start=True, **settings):
        daemon = Daemon(**settings)
        made.append(daemon)
        return daemon.start() if start else daemon

    yield make
    try:
        for daemon in made:
            if daemon.channel and daemon.process.poll() is None:
                daemon.verify(killed_by(request))
    except BaseException:
        print("\n".join(d.log[-6000:] for d in made if d.process))
        raise
    finally:
        for daemon in made:
            if daemon.process:
                daemon.stop()
            daemon.remove()


@pytest.fixture
def client(daemon):
    client = Client(daemon)
    yield client
    client.stop()


@pytest.fixture
def terminal(client):
    made = []

    def make(*arguments, **options):
        made.append(Terminal(client, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
