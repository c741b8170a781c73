"""Worker of the demonstration, a separate process: it counts the places of the partitions that it owns.

    python -m apportion.console.demo.groups.worker URL MEMBER LEDGER BATCH

A line on its standard input makes the worker stall in the middle of an effect. It prints a line and waits for another
input line, without any check. Then it tries to write under the token that it had.
"""

import asyncio
import os
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import apportion
from apportion.console.demo.groups.work import GROUP, PARTITIONS, WorkLedger, partitioned
from apportion.errors import Fenced, NotOwner
from apportion.groups.facade import AsyncGroup
from apportion.runtime.clock import SystemClock

LEASE = timedelta(seconds=2)
BEAT_SECONDS = 0.2


class DemoWorker:
    """One process of the group."""

    def __init__(self, group: AsyncGroup, ledger: WorkLedger, batch: int) -> None:
        self._group, self._ledger, self._batch = group, ledger, batch
        self._places = partitioned()
        self._clock = SystemClock()
        self._must_stall = False

    async def run(self) -> None:
        """Work on every partition of this member until the member has left."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._asked_to_stall)
        working: dict[int, asyncio.Task[None]] = {}
        async for change in self._group.changes():
            for partition in change.lost:
                task = working.pop(partition)
                task.cancel()
                await asyncio.wait([task])
            for partition in change.gained:
                working[partition] = asyncio.create_task(self._work(partition))

    async def _work(self, partition: int) -> None:
        with suppress(NotOwner):
            while True:
                async with self._group.hold(partition):
                    self._effect(partition)
                await asyncio.sleep(BEAT_SECONDS)

    def _effect(self, partition: int) -> None:
        token, began = self._group.token(partition), self._clock.elapsed()
        if self._must_stall:
            self._must_stall = False
            print(f"stalled {partition}", flush=True)
            sys.stdin.readline()
        told = {
            "pid": os.getpid(),
            "member": self._group.member_id,
            "partition": partition,
            "token": (token.incarnation, token.epoch),
            "holder": token.holder,
            "began": began,
        }
        try:
            start, places = self._ledger.count(token, partition, self._places[partition], self._batch)
        except Fenced:
            self._ledger.log(told | {"ended": self._clock.elapsed(), "refused": True})
            return
        self._ledger.log(told | {"ended": self._clock.elapsed(), "start": start, "places": places})

    def _asked_to_stall(self) -> None:
        self._must_stall = bool(sys.stdin.readline())
        if not self._must_stall:  # the parent process has gone
            self._group.leave()
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


async def main(url: str, member_id: str, ledger: str, batch: str) -> None:
    """Work until SIGTERM."""
    async with apportion.open_group(url, GROUP, partitions=PARTITIONS, member_id=member_id, lease_ttl=LEASE) as group:
        await DemoWorker(group, WorkLedger(Path(ledger)), int(batch)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
