"""Every program in attack/, in every runtime where it applies: all it tries must fail, and it must have tried."""
import pathlib
import re

import pytest

from range import programs
from range.programs import Tally

CASES = [pytest.param(p, r, id=f"{p.name}-{r}") for p in programs.all_in("attack", "deny") for r in p.runtimes]


@pytest.mark.parametrize("program, runtime", CASES)
def test_attack_fails(daemon, host, program, runtime):
    """Nothing that the program tries succeeds."""
    call = program.run(daemon, runtime, host.told(program.name), timeout=60)
    Tally(call).check_all_refused(program.attempts)


def test_every_attack_says_how_much_it_tries():
    """An attack without a number of attempts could end early and pass."""
    all_of_them = programs.all_in("attack", "deny")
    assert len(all_of_them) > 20 and not [p.name for p in all_of_them if p.attempts <= 0]


def test_every_reported_case_has_its_test():
    """The faults that users of other sandboxes reported, by their ids: each is named by a program or a test, here or among the end-to-end tests."""
    wanted = {f"ESC-{n:02}" for n in (1, 2, 4, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 22, 23, 25, 26, 27, 30, 32)}
    wanted |= {"FIL-01", "FIL-04", "FIL-06", "FIL-12", "FIL-13", "FIL-16", "SES-13", "SES-16", "SEED-12", "SEED-19"}
    here = pathlib.Path(__file__).parent
    found = {case for folder in ("attack", "work") for p in programs.all_in(folder, "deny") + programs.all_in(folder, "allow") for case in p.cases}
    for path in [*here.glob("test_*.py"), *(here.parent / "e2e").glob("test_*.py")]:
        for name in re.findall(r"def test_(\w+)", path.read_text()):
            found |= {f"{kind}-{number}" for part in re.findall(r"((?:ESC|FIL|SES|SEED)(?:_\d+)+)", name)
                      for kind in [part.split("_")[0]] for number in part.split("_")[1:]}
    assert wanted <= found, wanted - found
