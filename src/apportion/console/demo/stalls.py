"""Stalls: a worker process of a demonstration of tasks. It works until SIGTERM; the script may stop one run.

The line `stall` on its standard input stops the next run before its transaction. The worker prints a line then, and the
next input line lets the run continue, without any check. At the end of the input the worker leaves.
"""

import asyncio
import os
import signal
import sys

from apportion.console.demo.traces import STALL
from apportion.work.worker import QueueWorker


async def work(worker: QueueWorker) -> None:
    """Work until SIGTERM."""
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _asked)
    async with worker:
        print("ready", flush=True)
        await asyncio.Event().wait()


def _asked() -> None:
    line = sys.stdin.readline()
    if line == "stall\n":
        STALL.is_asked = True
    else:
        STALL.goes_on.set()
    if not line:  # the parent process has gone
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        os.kill(os.getpid(), signal.SIGTERM)
