"""Writers of three kinds of slots: those that move, and those that stay on shard one or on shard two.

python -m tests.live.slot_writers URL FOLDER FIRST COUNT

The file `moving` in the folder names the slots that move. The kind of a writer follows from its number. The ledgers are
those of `shard_writers`.
"""

import sys
from bisect import bisect
from itertools import count, islice
from pathlib import Path

from tests.live.ledgers import write_until_the_input_ends
from tests.live.shard_writers import COUNTRIES, write_countries

KINDS = ("moving", "one", "two")
MOVING = "moving"
PAUSES_SECONDS = {"moving": 0.006, "one": 0.05, "two": 0.05}
STAYING = {0: "one", 4: "two"}
"""The writers whose slots stay on a shard. All others write to slots that move."""


def kind(number):
    """Return the kind of a writer's slots."""
    return STAYING.get(number, MOVING)


def work(router, writer, ledger, stopped):
    """Write countries of one kind until the end."""
    moving = {int(slot) for slot in (Path(sys.argv[2]) / MOVING).read_text().split(",")}

    def is_mine(country):
        return (MOVING if router.slot(country) in moving else router.shard(country)) == kind(writer)

    named = (f"w{writer}c{number}" for number in count())
    mine = list(islice(filter(is_mine, named), COUNTRIES))
    write_countries(router, writer, ledger, stopped, mine, pause_seconds=PAUSES_SECONDS[kind(writer)])


class Acknowledged:
    """The times of the acknowledged writes of each kind, read from the ledgers as they grow."""

    def __init__(self, folder):
        self._folder, self._read = folder, {}
        self.times = {each: [] for each in KINDS}

    def since(self, at):
        """Return the number of writes of each kind that were acknowledged after a time."""
        for ledger in self._folder.glob("ledger-*"):
            with ledger.open() as lines:
                lines.seek(self._read.get(ledger, 0))
                *whole, rest = lines.read().split("\n")
                self._read[ledger] = lines.tell() - len(rest)
            mine = self.times[kind(int(ledger.name.partition("-")[2]))]
            mine += [float(line.split()[3]) for line in whole if line.startswith("A ")]
            mine.sort()
        return {each: len(times) - bisect(times, at) for each, times in self.times.items()}


if __name__ == "__main__":
    write_until_the_input_ends(work, *sys.argv[1:])
