"""Fixtures of the attack tests: those of the end-to-end tests, programs to attack with, and canaries on the host that no attack may touch."""
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
E2E = HERE.parent / "e2e"

sys.path.insert(0, str(HERE))
_spec = importlib.util.spec_from_file_location("glovebox_e2e_fixtures", E2E / "conftest.py")
e2e = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(e2e)
globals().update({name: value for name, value in vars(e2e).items() if not name.startswith("__")})

from range import canaries, programs  # noqa: E402

# What the daemon's environment holds and no cell may see.
os.environ["GLOVEBOX_TEST_SECRET"] = canaries.SECRET


@pytest.fixture(scope="session", autouse=True)
def programs_built():
    """The attackers in C, compiled once."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-escape-"))
    programs.build(folder)
    yield
    shutil.rmtree(folder)


@pytest.fixture(scope="session", autouse=True)
def canaries_laid(programs_built):
    host = canaries.Host()
    yield host
    host.remove()


@pytest.fixture
def host(canaries_laid):
    return canaries_laid


@pytest.fixture(autouse=True)
def host_is_unharmed(canaries_laid):
    """After every test the host is as it was."""
    canaries_laid.look()
    yield
    canaries_laid.check()
