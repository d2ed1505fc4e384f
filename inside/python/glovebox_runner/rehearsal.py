"""What an interpreter that waits for a job runs before it comes. All that the first program would be slow for is then done: pages that a fork shares
are copied, parts loaded, and specialised code is made. Its prints go nowhere."""
import sys


class Point:
    def __init__(self, x):
        self.x = x


def double(numbers):
    return [2 * n for n in numbers]


points = {name: Point(n) for n, name in enumerate("abc")}
print("rehearsal", double([1, 2.5]), f"{len(points)} points")
print(*sorted(points), sep=", ", end="\n", flush=True)
try:
    points["d"]
except KeyError as error:
    print(error, file=sys.stderr)
for i in range(10):
    points["a"].x += i
{"value": [points["a"].x, 2.5, "text", None, True]}
