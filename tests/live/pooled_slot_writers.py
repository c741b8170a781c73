"""Writers of slots that move and of slots that stay, through poolers that lend connections by the transaction.

python -m tests.live.pooled_slot_writers URL FOLDER FIRST COUNT

They are those of `slot_writers`, with the drivers and the environment of `pooled_writers`.
"""

import sys

from tests.live.ledgers import write_with
from tests.live.pooled_writers import pooled
from tests.live.slot_writers import work


def main(url, folder, first, writers):
    """Let writers work until the input ends."""

    def work_by_turns(driven, writer, ledger, stopped):
        work(driven[writer % len(driven)], writer, ledger, stopped)

    with pooled(url) as driven:
        write_with(driven, work_by_turns, folder, first, writers)


if __name__ == "__main__":
    main(*sys.argv[1:])
