"""Writers for tests of movers that are killed: each acknowledges its writes in a ledger that is on the disk.

python -m tests.live.shard_writers URL FOLDER FIRST COUNT

A writer has keys of its own, four in a country. A transaction writes or deletes all four keys of a country. The ledger
has a line `I COUNTRY NUMBER` before it. After it there is a line `A COUNTRY NUMBER SECONDS` if it was acknowledged, or
else `F COUNTRY NUMBER ERROR`. Numbers grow; the transaction of every tenth number deletes. The process ends when its
input ends.
"""

import os
import random
import sys
import time
from itertools import count, islice
from uuid import UUID

from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError

from apportion.errors import StaleRoute, StoreUnavailable
from tests.live.ledgers import write_until_the_input_ends
from tests.shards.sample import Place

COUNTRIES, KEYS = 12, 4
PAUSE_SECONDS = 0.004


def countries(router, writer):
    """Return the countries of a writer: some that lie on the shard whose slots will move."""
    named = (f"w{writer}c{number}" for number in count())
    return list(islice((each for each in named if router.shard(each) == "one"), COUNTRIES))


def ids(country):
    """Return the keys of a country."""
    return [UUID(bytes=f"{country:>14}:{number}".encode()) for number in range(KEYS)]


def deletes(number):
    """Whether the transaction of a number deletes."""
    return number % 10 == 0


def write(session, country, number):
    """Write or delete the keys of a country."""
    for key in ids(country):
        place = session.get(Place, key)
        if deletes(number):
            if place is not None:
                session.delete(place)
        elif place is None:
            session.add(Place(id=key, country=country, visits=number))
        else:
            place.visits = number


def work(router, writer, ledger, stopped):
    """Write until the end."""
    write_countries(router, writer, ledger, stopped, countries(router, writer))


def write_countries(router, writer, ledger, stopped, mine, *, pause_seconds=PAUSE_SECONDS):
    """Write the countries of a writer until the end."""
    draw, number = random.Random(writer), 0
    while not stopped.is_set():
        number += 1
        country = draw.choice(mine)
        os.write(ledger, f"I {country} {number}\n".encode())
        try:
            router.run(country, lambda session, place=country, value=number: write(session, place, value))
        except (StaleRoute, StoreUnavailable, DBAPIError) as error:  # perhaps it was written, perhaps not
            if isinstance(error, (IntegrityError, ProgrammingError)):
                raise
            os.write(ledger, f"F {country} {number} {type(error).__name__}\n".encode())
        else:
            os.write(ledger, f"A {country} {number} {time.monotonic():.6f}\n".encode())
            os.fdatasync(ledger)
        stopped.wait(pause_seconds)


if __name__ == "__main__":
    write_until_the_input_ends(work, *sys.argv[1:])
