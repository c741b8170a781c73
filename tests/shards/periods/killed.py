"""A program that drops old partitions, and kills itself at an event: python killed.py URL FOLDER DAY EVENT."""

import asyncio
import os
import signal
import sys
from datetime import date, timedelta
from pathlib import Path

from apportion.shards import admin
from apportion.shards.postgres.partitions.server import PartitionServer
from tests.shards.sample import SET

left = int(sys.argv[4])


def heard(_):
    global left  # noqa: PLW0603
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)


async def today(_):
    return date.fromisoformat(sys.argv[3])


PartitionServer.today = today
work = admin.partitions(
    sys.argv[1],
    SET,
    ahead=1 if left else None,
    older_than=timedelta(days=365),
    archive=Path(sys.argv[2]),
    drop=True,
    observer=heard,
)
asyncio.run(work)
