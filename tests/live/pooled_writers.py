"""Writers whose sessions go through poolers that lend connections by the transaction.

python -m tests.live.pooled_writers URL FOLDER FIRST COUNT

The environment names the port of each pooler: `POOLER_PORTS=DATABASE=PORT,...`. Each write inserts a row of its own.
The ledger has a line `A ID` after it was acknowledged, and `F ID ERROR` after it was refused. Every second writer has
the driver asyncpg, the others have psycopg.
"""

import os
import random
import sys
from contextlib import ExitStack, contextmanager
from uuid import uuid4

from apportion.errors import StaleRoute
from tests.live.ledgers import write_with
from tests.live.shard_writers import countries
from tests.shards.drivers import opened
from tests.shards.sample import Place

PORTS = "POOLER_PORTS"
OPTIONS = {
    "psycopg": {"connect_args": {"prepare_threshold": None}},
    "asyncpg": {"connect_args": {"statement_cache_size": 0, "prepared_statement_cache_size": 0}},
}
"""The options of an engine behind a pooler that keeps no prepared statements, as PgBouncer 1.18."""


def main(url, folder, first, writers):
    """Let writers work until the input ends."""
    with pooled(url) as driven:
        write_with(driven, work_by_turns, folder, first, writers)


@contextmanager
def pooled(url):
    """Yield a router of each driver, whose connections are those of the poolers."""
    ports = dict(each.split("=") for each in os.environ[PORTS].split(","))

    def place(url):
        return url.set(port=int(ports[url.database]))

    with ExitStack() as stack:
        yield [stack.enter_context(opened(url, driver, place, **options)) for driver, options in OPTIONS.items()]


def work_by_turns(driven, writer, ledger, stopped):
    """Insert rows until the end, with the driver of the writer."""
    router, draw = driven[writer % len(driven)], random.Random(writer)
    mine = countries(router, writer)
    while not stopped.is_set():
        row, country = uuid4(), draw.choice(mine)
        try:
            router.run(country, lambda session, each=row, place=country: session.add(Place(id=each, country=place)))
        except StaleRoute as error:
            os.write(ledger, f"F {row} {type(error).__name__}\n".encode())
        else:
            os.write(ledger, f"A {row}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
