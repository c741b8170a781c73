"""Malformed records: 200 are written over those of a group of three processes, one after another; what each one costs.

They are bytes, types, depth and range of every kind of record. A record is survived if all partitions but a damaged one
are served again, a newcomer joins and gets its share, and `group repair` brings back the rest. The newcomer is a member
in the process of this figure. PostgreSQL and etcd get a smaller round.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module

import apportion
from apportion.groups.admin.repair import mend
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import partition_of
from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.rig import Rig
from apportion.stores import Absent, Committed, CoordinationStore, Put, Unchanged, connect
from bench import engines
from bench.goal import at_least, at_most
from bench.groups import Crew
from bench.row import Row

GROUP, MEMBERS, NEWCOMER = "bench", ("a", "b", "c"), "newcomer"
PARTITIONS, TTL_SECONDS, PATIENCE_SECONDS, SEED = 8, 2.0, 20.0, 17
RECORDS = {"sqlite": 200, "postgresql": 40, "etcd": 40}
ENDED = at_most(0, "processes")


def rows() -> list[Row]:
    """Write malformed records on each store."""
    return engines.rows_of(_measure, *engines.NAMES, what="malformed records")


async def _measure(rig: Rig) -> list[Row]:
    desk, count = _Desk(rig.url(GROUP), await connect(rig.url(GROUP))), RECORDS[rig.name]
    survived, took = 0, list[float]()
    try:
        await desk.begin()
        for key, value, keeps_lease in _mixed(count):
            try:
                took.append(await desk.damage(key, value, keeps_lease=keeps_lease))
            except TimeoutError:
                print(f"not survived, {rig.name}: {key} = {value[:80]!r}", flush=True)
                break
            survived += 1
        ended = desk.ended
    finally:
        await desk.end()
    goal = at_least(count, "survived")
    what, longest = f"{count} malformed records, 3 processes and a newcomer, {rig.name}", max(took, default=0.0)
    return [
        Row(name=what, value=survived, shown=f"{survived} survived", goal=str(goal), met=goal.is_met(survived)),
        Row(name=f"{what}: ended", value=ended, shown=f"{ended} processes", goal=str(ENDED), met=ENDED.is_met(ended)),
        Row(name=f"{what}: served again", value=longest, shown=f"max {longest:.1f} s, with the newcomer's share"),
    ]


def _mixed(count: int) -> Iterator[tuple[str, bytes, bool]]:
    """Yield malformed records, and whether each keeps the lease of the one before."""
    malformed = import_module("tests.groups.malformed")
    yield from malformed.mixed(SEED, count, group=GROUP, members=MEMBERS, partitions=PARTITIONS)


class _Desk:
    """A group of three processes, a program that damages its records, and an operator who repairs them."""

    def __init__(self, url: str, store: CoordinationStore) -> None:
        self._url, self._store, self._clock = url, store, SystemClock()
        self._crew = Crew(url=url, partitions=PARTITIONS, ttl_seconds=TTL_SECONDS)
        self._own = GroupKeys(group=GROUP).own(0)[:-1]

    @property
    def ended(self) -> int:
        """How many of the processes have ended."""
        return sum(process.poll() is not None for process in self._crew.processes.values())

    async def begin(self) -> None:
        """Start the members; all is served evenly then."""
        for name in MEMBERS:
            self._crew.start(name)
        await self._crew.until(self._crew.is_even)

    async def end(self) -> None:
        """End all."""
        await self._crew.end()
        await self._store.close()

    async def damage(self, key: str, value: bytes, *, keeps_lease: bool) -> float:
        """Write over a record, and repair it; return how long it took until all else was served, by a newcomer too."""
        damaged = partition_of(key.removeprefix(self._own), PARTITIONS) if key.startswith(self._own) else None
        others = set(range(PARTITIONS)) - {damaged}
        began, crew = self._clock.elapsed(), self._crew
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._write(key, value, keeps_lease=keeps_lease)
            await crew.until(lambda: damaged not in crew.owners and set(crew.owners) == others)
            ttl = timedelta(seconds=TTL_SECONDS)
            opening = apportion.open_group(self._url, GROUP, partitions=PARTITIONS, member_id=NEWCOMER, lease_ttl=ttl)
            async with opening as newcomer:
                await crew.until(lambda: bool(newcomer.owned) and {*crew.owners, *newcomer.owned} == others)
                took = self._clock.elapsed() - began
            await mend(self._store, GROUP, "the store")
            await crew.until(lambda: len(crew.owners) == PARTITIONS and {*crew.owners.values()} == {*MEMBERS})
        return took

    async def _write(self, key: str, value: bytes, *, keeps_lease: bool) -> None:
        """Write over the present record, as a foreign program."""
        outcome = None
        while not isinstance(outcome, Committed):
            item = next((each for each in (await self._store.scan(key)).items if each.key == key), None)
            when = Absent(key=key) if item is None else Unchanged(key=key, revision=item.revision)
            lease = item.lease if item is not None and keeps_lease else None
            outcome = await self._store.commit(when=[when], puts=[Put(key=key, value=value, lease=lease)])
