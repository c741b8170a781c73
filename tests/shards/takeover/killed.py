"""A process that takes a file over, and kills itself at its n-th transaction, as the kernel would.

    python -m tests.shards.takeover.killed FOLDER begin|commit N

`begin` kills before the transaction has done anything, `commit` when all is done and nothing is committed. N is counted
from 1; with 0 the process goes to the end, and prints how many there were.
"""

import os
import signal
import sys
from pathlib import Path

from sqlalchemy import Engine, event

from apportion.shards.takeover import rows, takeover
from tests.shards.takeover.old_file import OldFile


def main(folder, moment, stop):
    """Take the file of a folder over."""
    rows.CHUNK_ROWS = takeover.CHUNK_ROWS = 16
    reached = 0

    @event.listens_for(Engine, moment)
    def _reached(_):
        nonlocal reached
        reached += 1
        if reached == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    OldFile(Path(folder), is_made=True).take()
    print(reached)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
