"""Node of the demonstration, a separate process: it runs the schedules of a year, and their tasks, until SIGTERM.

    python -m apportion.console.demo.cron.node

Its standard input takes lines of a schedule and a slot: the node tries to trigger that slot, and prints the answer. At
the end of the input the node leaves.
"""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime

from apportion.console.demo.cron.year import queue
from apportion.errors import AlreadyTriggered
from apportion.work.cron import scheduler


async def main() -> None:
    """Work until SIGTERM, with a look at the schedules ten times a second: a week passes in a moment here."""
    scheduler.LOOK_SECONDS = 0.1
    lines: asyncio.Queue[str] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), lambda: lines.put_nowait(sys.stdin.readline()))
    async with queue.worker(concurrency=4):
        print("ready", flush=True)
        while line := await lines.get():
            name, slot = line.split()
            print(await _tried(name, int(slot)), flush=True)
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        os.kill(os.getpid(), signal.SIGTERM)  # the parent process has gone
        await asyncio.Event().wait()


async def _tried(name: str, slot: int) -> str:
    try:
        await queue.trigger(name, datetime.fromtimestamp(slot / 1_000, UTC))
    except AlreadyTriggered:
        return "refused"
    return "triggered"


if __name__ == "__main__":
    asyncio.run(main())
