"""Worker processes for tests of keys: python -m tests.work.lanes.keyed_worker ID [static]; it prints `ready`.

A run of task NUMBER of KEY appends lines `WORD KEY NUMBER ATTEMPT PID SECONDS` to the log, in one write each: `begun`,
then `ended`, `failed` or `cancelled`. The worker appends `done` or `refused` once the store has answered. The seconds
are those of the elapsed clock, which all processes of a machine share.
"""

import asyncio
import os
import random
import sys
from datetime import timedelta

import apportion
from apportion.runtime.attempt_events import AttemptDone, AttemptRefused
from apportion.runtime.clock import SystemClock

TTL = timedelta(seconds=2)
PARTITIONS = 32
URL, GROUP_URL, LOG, FAILING = [f"APPORTION_KEYED_{each}" for each in ("URL", "GROUP_URL", "LOG", "FAILING")]

queue = apportion.Queue(
    os.environ.get(URL, "memory://keyed"),
    "keys",
    lease_ttl=TTL,
    partitions=PARTITIONS,
    group_url=os.environ.get(GROUP_URL) or None,
)
_log = os.open(os.environ.get(LOG, os.devnull), os.O_APPEND | os.O_WRONLY | os.O_CREAT)
_numbers = {}


def say(word, key, number, attempt):
    """Append a line to the log."""
    os.write(_log, f"{word} {key} {number} {attempt} {os.getpid()} {SystemClock().elapsed()}\n".encode())


@queue.task(failures=1_000, first_delay=timedelta(milliseconds=20), longest_delay=timedelta(milliseconds=100))
async def work(key: str, number: int, seconds: float) -> None:
    """Work for a random time; one run in ten fails."""
    task = apportion.current_task()
    _numbers[task.id] = key, number
    say("begun", key, number, task.attempt)
    try:
        await asyncio.sleep(seconds * random.random())
    except asyncio.CancelledError:
        say("cancelled", key, number, task.attempt)
        raise
    if random.random() < float(os.environ.get(FAILING, "0.1")):
        say("failed", key, number, task.attempt)
        raise ValueError("one run in ten")
    say("ended", key, number, task.attempt)


def heard(event):
    """Note the answers of the store."""
    if isinstance(event, AttemptDone | AttemptRefused) and event.task in _numbers:
        word = "done" if isinstance(event, AttemptDone) else "refused"
        say(word, *_numbers[event.task], event.attempt)


async def main(name, *words):
    """Work until SIGTERM."""
    is_static = "static" in words
    grace = timedelta(seconds=20) if is_static else None
    member = apportion.LaneMember(member_id=name, static=is_static, rejoin_grace=grace, settle=timedelta(seconds=0.2))
    async with queue.worker(concurrency=8, observer=heard, member=member):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
