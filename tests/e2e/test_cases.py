"""The cases that this part of the work promised to turn into tests: none may get lost when tests are moved or renamed."""
import pathlib
import re

CASES = {
    "STR": [1, 3, 5, 6, 8, 9, 11, 12, 13, 14, 15, 16, 18, 19],
    "GRP": [1, 2, 4, 6, 7, 8, 9, 10, 11, 13, 14, 15, 17, 19, 20, 21, 23],
    "LIM": [1, 2, 4, 5, 7, 13, 17, 21, 22, 25, 26, 30],
    "SES": [14, 21, 22, 25],
    "ESC": [1, 28],
    "RES": [1, 2, 3, 5, 6, 8, 9, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 25, 26, 28],
    "FIL": [1, 2, 8, 9, 11, 12, 13, 15, 16],
    "SEED": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25],
}


def test_every_case_has_a_test():
    """Each case id is part of the name of at least one test, and each such test says in a sentence what it shows."""
    found = {}
    for file in pathlib.Path(__file__).parent.glob("test_*.py"):
        for case, following in re.findall(r"^def test_([A-Z]+_\d\d)_\w+\(.*\):\n(.*)$", file.read_text(), re.MULTILINE):
            found.setdefault(case, []).append(following.strip())
    missing = [f"{area}_{n:02}" for area, numbers in CASES.items() for n in numbers if f"{area}_{n:02}" not in found]
    assert not missing
    assert all(line.startswith('"""') and len(line) > 20 for lines in found.values() for line in lines)
