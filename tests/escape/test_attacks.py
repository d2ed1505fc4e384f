"""Every program in attack/, in every runtime where it applies: all it tries must fail, and it must have tried."""
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
