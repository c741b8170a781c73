"""Writers of keys that get slots of their own: each inserts the rows of a key and deletes them, and reads them first.

python -m tests.live.pin_writers URL FOLDER FIRST COUNT

The ledger of a writer is that of `shard_writers`. It has a line `X COUNTRY FOUND` too if a transaction read rows that
no acknowledged or unknown write of the key can have left.
"""

import os
import random
import sys
import time
from itertools import count

from sqlalchemy.exc import IntegrityError, OperationalError

from apportion.errors import StaleRoute, StoreUnavailable
from tests.live.ledgers import write_until_the_input_ends
from tests.live.shard_writers import deletes, ids, write
from tests.shards.sample import Place

KEYS_OF_WRITER = 6
PAUSE_SECONDS = 0.02  # a mover has to find a key without rows, twice


def keys(writer):
    """Return the keys of a writer."""
    return [f"p{writer}k{number}" for number in range(KEYS_OF_WRITER)]


def seen(session, key):
    """Return the values of a key's rows in the slot that the session has."""
    return {None if place is None else place.visits for place in (session.get(Place, each) for each in ids(key))}


def left(number):
    """Return the value that the write of a number leaves."""
    return None if deletes(number) else number


class Writer:
    """One writer: the numbers of its keys, and the values that their rows may have."""

    def __init__(self, router, writer, ledger):
        self._router, self._ledger = router, ledger
        self._numbers, self._allowed = {}, {key: {None} for key in keys(writer)}

    def work(self, stopped, draw):
        """Write until the end: a key has rows for a short time, and none for a longer one. At the end each has some."""
        while not stopped.is_set():
            key = draw.choice([*self._allowed])
            self._write(key, lambda number: number % 10 == 1)
            self._write(key, deletes)
            stopped.wait(PAUSE_SECONDS)
        for key in self._allowed:
            self._write(key, lambda number: number % 10 == 1)

    def _write(self, key, is_due):
        """Write the next number that is due."""
        last = self._numbers.get(key, 0)
        number = self._numbers[key] = next(each for each in count(last + 1) if is_due(each))
        self._note(f"I {key} {number}")
        try:
            self._router.run(key, lambda session: self._turn(session, key, number))
        except (StaleRoute, StoreUnavailable, OperationalError):
            self._allowed[key].add(left(number))  # perhaps it was written, perhaps not
            return
        except IntegrityError:
            self._note(f"X {key} a-row-that-its-slot-does-not-show")
            return
        self._allowed[key] = {left(number)}
        self._note(f"A {key} {number} {time.monotonic():.6f}")
        os.fdatasync(self._ledger)

    def _turn(self, session, key, number):
        found = seen(session, key)
        if not found <= self._allowed[key] or len(found) > 1:
            self._note(f"X {key} {found}")
        write(session, key, number)

    def _note(self, line):
        os.write(self._ledger, f"{line}\n".encode())


def work(router, writer, ledger, stopped):
    """Write the keys of a writer until the end."""
    Writer(router, writer, ledger).work(stopped, random.Random(writer))


if __name__ == "__main__":
    write_until_the_input_ends(work, *sys.argv[1:])
