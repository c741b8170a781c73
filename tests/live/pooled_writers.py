"""Writers whose sessions go through poolers that lend connections by the transaction.

python -m tests.live.pooled_writers URL FOLDER FIRST COUNT

The environment names the port of each pooler: `POOLER_PORTS=DATABASE=PORT,...`. The ledgers are those of
`shard_writers`. Every second writer has the driver asyncpg, the others have psycopg.
"""

import os
import sys
from contextlib import ExitStack

from tests.live.ledgers import write_with
from tests.live.shard_writers import work
from tests.shards.drivers import opened

PORTS = "POOLER_PORTS"
OPTIONS = {
    "psycopg": {"connect_args": {"prepare_threshold": None}},
    "asyncpg": {"connect_args": {"statement_cache_size": 0, "prepared_statement_cache_size": 0}},
}
"""The options of an engine behind a pooler that keeps no prepared statements, as PgBouncer 1.18."""


def main(url, folder, first, writers):
    """Let writers work until the input ends."""
    ports = dict(each.split("=") for each in os.environ[PORTS].split(","))

    def place(url):
        return url.set(port=int(ports[url.database]))

    with ExitStack() as stack:
        driven = [stack.enter_context(opened(url, driver, place, **options)) for driver, options in OPTIONS.items()]
        write_with(driven, work_by_turns, folder, first, writers)


def work_by_turns(driven, writer, ledger, stopped):
    """Write until the end, with the driver of the writer."""
    work(driven[writer % len(driven)], writer, ledger, stopped)


if __name__ == "__main__":
    main(*sys.argv[1:])
