"""What an interpreter that waits for a job runs before it comes. All that the first program would be slow for is then done: pages that a fork shares
are copied, parts loaded, and specialised code is made. No more than nearly every program does, since a copied page is memory of every one that
waits. Its prints go nowhere."""
import sys


def double(n):
    return 2 * n


numbers = [1, 2.5]
for n in numbers:
    print("rehearsal", double(n), file=sys.stdout)
{"value": numbers, "text": None}
