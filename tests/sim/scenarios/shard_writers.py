"""The writers of the shards' scenario: routers with tables of any age, and writers that know no table.

A writer inserts, updates and deletes rows, deletes and inserts them again, and writes children with their parents. It
tells the world what it heard. A router that is refused reads the table again, at most twice.
"""

import asyncio
import random

from apportion.errors import StaleRoute, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.sim.shard_facts import RouterAsked, RowPlace, WriteBegan, WriteEnded
from apportion.sim.shards.database import Row
from apportion.sim.shards.wire import ShardWire
from apportion.sim.world.wire import NoReply
from apportion.stores import CoordinationStore
from apportion.tables.layout import Version
from tests.sim.scenarios.shard_set import CHILD, FIRST_TABLES, PARENT, SLOTS, ShardSet, read_table

MOST_REFRESHES = 2
_PIN_RATIO = 0.3
_SLOWER = 4  # once nothing fails any more
OUTAGES = (StoreDenied, StoreUnavailable, StoreWentBack)


class ShardWriter:
    """One process that writes. A `bare` one knows no table and tries any shard; a `lazy` one keeps old tables."""

    def __init__(self, process: str, shards: ShardSet, *, seconds: float, is_bare: bool, is_lazy: bool) -> None:
        self._process, self._shards, self._seconds = process, shards, seconds
        self._is_bare, self._is_lazy = is_bare, is_lazy
        self._wires = {name: ShardWire(process, place) for name, place in shards.places.items()}
        self._store: CoordinationStore = shards.world.store(process)

    async def run(self) -> None:
        """Write, again and again."""
        history = self._shards.world.checker.history
        while True:
            pause_seconds = self._seconds * (1 if history.calm_since is None else _SLOWER)
            await asyncio.sleep(random.expovariate(1 / pause_seconds))
            if len(self._shards.tables) >= FIRST_TABLES:
                await (self._write_bare() if self._is_bare else self._route())

    async def _write_bare(self) -> None:
        shard, slot = random.choice(self._shards.names), random.randrange(SLOTS)
        await self._write(shard, None, slot)

    async def _route(self) -> None:
        """Write by a table of any age; when it is refused, refresh and write again."""
        shards, slot = self._shards, random.randrange(SLOTS)
        pin = random.choice(shards.pins) if random.random() < _PIN_RATIO else None
        table = random.choice(shards.tables if self._is_lazy else shards.tables[-2:])
        for refreshes in range(MOST_REFRESHES + 1):
            slot = slot if pin is None else table.slot(pin)
            heard = await self._write(table.shard(slot), table.version, slot, pin)
            if heard is not False:
                return self._tell_refreshes(slot, refreshes if heard else None, is_known=heard is True)
            try:
                table = await read_table(self._store)
            except OUTAGES:
                return None
            await asyncio.sleep(0)
        return self._tell_refreshes(slot, None, is_known=True)

    def _tell_refreshes(self, slot: int, refreshes: int | None, *, is_known: bool) -> None:
        world = self._shards.world
        if is_known:
            world.trace.cover(f"a router arrives after {refreshes} refreshes")
            world.record(RouterAsked(at=world.now, slot=slot, refreshes=refreshes))

    async def _write(self, shard: str, version: Version | None, slot: int, pin: str | None = None) -> bool | None:
        """Write some rows of a slot in one transaction; return whether it is done, None if nobody knows."""
        changes, world = self._changes(slot, pin), self._shards.world
        numbers = []
        for place, row in changes.items():
            number = self._shards.write() if row is None else row[0]
            numbers.append(number)
            world.record(WriteBegan(at=world.now, write=number, place=place, is_deletion=row is None))
        try:
            await self._wires[shard].write("write", lambda database: database.write(version, changes))
        except NoReply:
            world.trace.cover("a write is unknown")
            return None
        except StaleRoute:
            world.trace.cover("a write is refused" if version else "a bare write is refused")
            is_done = False
        except OUTAGES:
            is_done = None
        else:
            is_done = True
            world.trace.cover("a write" if version else "a bare write")
        for number in numbers:
            world.record(WriteEnded(at=world.now, write=number, is_done=is_done is True))
        return is_done

    def _changes(self, slot: int, pin: str | None) -> dict[RowPlace, Row | None]:
        """Draw changes. A key that is to be pinned is deleted more often, because a key with rows cannot be pinned."""
        shards, draw = self._shards, random.random()
        key = random.choice(shards.keys[slot]) if pin is None else pin
        parent, child = RowPlace(slot, PARENT, key), RowPlace(slot, CHILD, f"{key}/1")
        if draw < (0.25 if pin is None else 0.5):
            return {child: None, parent: None}
        places = [parent] if draw < 0.6 else [parent, child] if draw < 0.8 else [child]
        if draw > 0.95 and pin is None:
            places = [RowPlace(slot, PARENT, each) for each in shards.keys[slot]]
        return {place: shards.row(place, shards.write()) for place in places}
