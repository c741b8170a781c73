"""Worker processes for tests that kill: python -m tests.work.task_worker CONCURRENCY; see `killed_tasks`.

Each line of the input starts one more worker, a fork of this process: so a start costs little. A worker prints
`ready PID`. It ends with this process, which ends with its input.
"""

import asyncio
import ctypes
import os
import random
import signal
import sys

from tests.work.killed_tasks import WORKER, queue

_SET_PARENT_DEATH_SIGNAL = 1


async def work(concurrency):
    """Work until killed."""
    os.environ[WORKER] = str(os.getpid())
    os.setpgid(0, 0)
    async with queue.worker(concurrency=concurrency):
        os.write(sys.stdout.fileno(), f"ready {os.getpid()}\n".encode())  # whole, also beside the lines of others
        await asyncio.Event().wait()


def main(concurrency):
    """Fork a worker for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    while sys.stdin.readline():
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            random.seed()
            asyncio.run(work(int(concurrency)))


if __name__ == "__main__":
    main(*sys.argv[1:])
