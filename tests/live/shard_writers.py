"""Writers for tests of movers that are killed: each acknowledges its writes in a ledger that is on the disk.

python -m tests.live.shard_writers URL FOLDER FIRST COUNT

A writer has keys of its own, four in a country. A transaction writes or deletes all four keys of a country. The ledger
has a line `I COUNTRY NUMBER` before it, and a line `A COUNTRY NUMBER SECONDS` after it was acknowledged. Numbers grow;
the transaction of every tenth number deletes. The process ends when its input ends.
"""

import os
import random
import sys
import threading
import time
from itertools import count, islice
from uuid import UUID

from sqlalchemy.exc import OperationalError

import apportion.sync
from apportion.errors import StaleRoute, StoreUnavailable
from tests.shards.sample import SET, Base, Place

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
    draw, number = random.Random(writer), 0
    mine = countries(router, writer)
    while not stopped.is_set():
        number += 1
        country = draw.choice(mine)
        os.write(ledger, f"I {country} {number}\n".encode())
        try:
            router.run(country, lambda session, place=country, value=number: write(session, place, value))
        except (StaleRoute, StoreUnavailable, OperationalError):
            continue  # perhaps it was written, perhaps not
        os.write(ledger, f"A {country} {number} {time.monotonic():.6f}\n".encode())
        os.fdatasync(ledger)
        stopped.wait(PAUSE_SECONDS)


def main(url, folder, first, writers):
    """Run some writers in threads."""
    stopped = threading.Event()
    with apportion.sync.open_shards(url, SET, base=Base) as router:
        threads = []
        for writer in range(first, first + writers):
            ledger = os.open(f"{folder}/ledger-{writer}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            threads.append(threading.Thread(target=work, args=(router, writer, ledger, stopped)))
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.read()
        stopped.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
