"""`python -m bench.holder`: a member that holds each of its partitions again and again, and says when, by a clock.

The first line of its input is a JSON object: `url`, `member`, `partitions`, `ttl`. Later lines are `leave` and `join`;
`deny` and `allow` make SQLite refuse what this process writes, and take it again. It says, a line each, in elapsed
seconds of the machine: `held PARTITION INCARNATION EPOCH START SHOWN END`, where SHOWN is the last moment at which it
could show its token; `lost PARTITION AT`; `left SESSIONS AT`.
"""

import asyncio
import json
import random
import sys
from contextlib import suppress
from datetime import timedelta
from importlib import import_module

import apportion
from apportion.errors import NotOwner
from apportion.groups.facade import AsyncGroup
from apportion.runtime.clock import SystemClock

GROUP = "bench"
HOLD_SECONDS, BEAT_SECONDS, AGAIN_SECONDS = 0.1, 0.02, 0.01
_CLOCK = SystemClock()


class Holder:
    """One member that comes and goes as it is told."""

    def __init__(self, url: str, member: str, *, partitions: int, ttl_seconds: float) -> None:
        self._url, self._member, self._partitions = url, member, partitions
        self._ttl = timedelta(seconds=ttl_seconds)
        self._group: AsyncGroup | None = None
        self._joins = asyncio.Event()
        self._joins.set()

    def hear(self, order: str) -> None:
        """Do as a line says."""
        if order == "leave" and self._group is not None:
            self._joins.clear()
            self._group.leave()
        elif order == "join":
            self._joins.set()
        elif order in ("deny", "allow"):
            import_module("tests.stores.rigs.sqlite").query_only(on=order == "deny")

    async def run(self) -> None:
        """Take part, again after each leave."""
        while True:
            await self._joins.wait()
            opening = apportion.open_group(
                self._url, GROUP, partitions=self._partitions, member_id=self._member, lease_ttl=self._ttl
            )
            async with opening as group:
                self._group = group
                await _work(group)
                sessions = group.statistics.sessions
            _say(f"left {sessions} {_CLOCK.elapsed():.6f}")


async def _work(group: AsyncGroup) -> None:
    """Hold our partitions until we have left. The work on a lost partition ends with its hold."""
    wanted, working = set[int](), dict[int, asyncio.Task[None]]()
    async for change in group.changes():
        wanted.difference_update(change.lost)
        for partition in change.lost:
            _say(f"lost {partition} {_CLOCK.elapsed():.6f}")
        if ended := [working.pop(each) for each in change.lost if each in working]:
            await asyncio.wait(ended)
        wanted.update(change.gained)
        for partition in change.gained:
            working[partition] = asyncio.create_task(_holding(group, partition, wanted))


async def _holding(group: AsyncGroup, partition: int, wanted: set[int]) -> None:
    while partition in wanted:
        with suppress(NotOwner):
            async with group.hold(partition) as token:
                await _hold(group, partition, f"{partition} {token.incarnation} {token.epoch}")
        await asyncio.sleep(AGAIN_SECONDS)


async def _hold(group: AsyncGroup, partition: int, what: str) -> None:
    """Show our token again and again; say from when to when."""
    start = shown = _CLOCK.elapsed()
    group.token(partition)
    ends = start + HOLD_SECONDS * random.uniform(0.5, 1.5)
    try:
        while shown < ends:
            await asyncio.sleep(BEAT_SECONDS)
            now = _CLOCK.elapsed()
            group.token(partition)  # NotOwner when it is not ours any more: then it was at no later time than `shown`
            shown = now
    finally:
        _say(f"held {what} {start:.6f} {shown:.6f} {_CLOCK.elapsed():.6f}")


def _say(line: str) -> None:
    print(line, flush=True)


async def main() -> None:
    """Take part until the end of the input."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    said = json.loads(await lines.readline())
    holder = Holder(said["url"], said["member"], partitions=said["partitions"], ttl_seconds=said["ttl"])
    running = asyncio.create_task(holder.run())
    running.add_done_callback(lambda task: task.cancelled() or sys.exit(f"{said['member']}: {task.exception()!r}"))
    while line := await lines.readline():
        holder.hear(line.decode().strip())
    running.cancel()


if __name__ == "__main__":
    asyncio.run(main())
