"""The movers and the operator of the shards' scenario: the shipped mover over shards in memory, led by an election.

A mover may be killed before or after each of its steps, or paused there for longer than its lease. An operator begins
moves, some of them back to a shard that old tables still name, and wishes that moves pause, go on or end. A mover
reverses some of the moves that can go back, and cleans up after others.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import apportion
from apportion.errors import ApportionError, BadSnapshot, Conflict, Fenced, InvalidInput, NotOwner, StaleEpoch
from apportion.groups.leader import AsyncElection
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import Mover
from apportion.shards.mover.book import KeptMove
from apportion.shards.mover.own_slots import OwnSlots
from apportion.shards.mover.reversal import reverse
from apportion.shards.reshard import BEFORE_SWITCH, Wish
from apportion.shards.slots import SlotTable
from apportion.sim.shards.memory import MemoryChannel, MemoryShard
from apportion.sim.shards.wire import ShardWire
from apportion.sim.world.world import World
from tests.sim.scenarios.shard_set import FIRST_TABLES, SET, URL, ShardSet, read_table
from tests.sim.scenarios.shard_writers import OUTAGES

TTL_SECONDS = 1.0
_PAUSE_SECONDS = 0.1
_PIN_RATIO = 0.3
_REVERSIBLE_RATIO, _REVERSE_RATIO = 0.5, 0.7
_REST_SECONDS = 0.3


class MemorySites:
    """The shards of a set as one process sees them."""

    def __init__(self, process: str, shards: ShardSet) -> None:
        self._process, self._shards = process, shards

    async def shard(self, shard_id: str) -> MemoryShard:
        """Return a shard."""
        return MemoryShard(self._process, self._shards.places[shard_id])

    async def channel(self, group: MoveGroup) -> MemoryChannel:
        """Return the channel of a group."""
        places = self._shards.places
        return MemoryChannel(self._process, group, places[group.source], places[group.target])

    async def kept_log(self, group: MoveGroup) -> None:
        """Return None: memory keeps no log."""

    async def close(self) -> None:
        """Nothing is open."""


def mover_of(process: str, shards: ShardSet, reached: Callable[[str], None] = lambda _: None) -> Mover:
    """Return a shipped mover for a process."""
    world: World = shards.world
    return Mover(
        world.store(process),
        SET,
        MemorySites(process, shards),
        shards.nodes,
        clock=world.clock(process),
        wall=time.time,
        reached=reached,
    )


class MoverProcess:
    """One process that stands for election, and moves all groups while it leads."""

    def __init__(self, process: str, shards: ShardSet, reached: Callable[[str], None]) -> None:
        self._process, self._shards, self._reached = process, shards, reached

    async def run(self) -> None:
        """Stand for election again and again."""
        ttl = timedelta(seconds=TTL_SECONDS)
        while True:
            with suppress(NotOwner, *OUTAGES):
                async with apportion.leader(URL, f"{SET}.mover", member_id=self._process, lease_ttl=ttl) as election:
                    while True:
                        await self._lead(election, await election.wait_until_elected())
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _lead(self, election: AsyncElection, token: FencingToken) -> None:
        """Do all that is due, as long as this process leads."""
        shards, process = self._shards, self._process
        mover, sites = mover_of(process, shards, self._reached), MemorySites(process, shards)
        own_slots = OwnSlots(shards.world.store(process), SET, sites, mover.book, token, reached=self._reached)
        while election.is_leader and election.token == token:
            try:
                await own_slots.settle()
                await self._pin(own_slots)
                moves = await mover.book.read()
                for move, kept in moves.kept.items():
                    await self._move(mover, move, kept, token)
            except (Conflict, Fenced, StaleEpoch, BadSnapshot, *OUTAGES) as error:
                # A scan from before the first table shows none, and is `BadSnapshot`. No record is damaged here.
                self._shards.world.trace.cover(f"mover: {type(error).__name__}")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _move(self, mover: Mover, move: str, kept: KeptMove, token: FencingToken) -> None:
        """Run a move to its end. A reversible one stays complete for a moment, and most of them go back."""
        is_kept, rest = kept.entry.record.way == "reversible", random.expovariate(1 / _REST_SECONDS)
        entry = await mover.run(move, token, cleans=not is_kept)
        if entry is None or not is_kept or entry.record.state != "complete":
            return
        is_calm = self._shards.world.checker.history.calm_since is not None
        await asyncio.sleep(0 if is_calm else rest)
        if random.random() > _REVERSE_RATIO:
            await mover.run(move, token, cleans=True)
            return
        try:
            await reverse(mover, move, token)
        except InvalidInput:
            if move in (await mover.book.read()).kept:
                raise  # a gap in its log; else a later mover has cleaned it

    async def _pin(self, own_slots: OwnSlots) -> None:
        """Pin a key now and then; a key with rows, or of a slot that moves, is refused."""
        shards, trace = self._shards, self._shards.world.trace
        is_calm = shards.world.checker.history.calm_since is not None
        if is_calm or len(shards.tables) < FIRST_TABLES or random.random() > _PIN_RATIO:
            return
        try:
            await own_slots.pin(random.choice(shards.pins), self._has_rows)
        except (Conflict, InvalidInput) as refused:
            trace.cover(f"a pin is refused: {type(refused).__name__}")

    async def _has_rows(self, shard: str, slot: int, key: bytes) -> bool:
        wire, name = ShardWire(self._process, self._shards.places[shard]), key.decode()
        return await wire.read("rows of a key", lambda database: database.has_key(slot, name))


class ShardOperator:
    """The process that begins moves, and changes wishes, until nothing fails any more; then every move is to go on."""

    def __init__(self, process: str, shards: ShardSet, seconds: float) -> None:
        self._process, self._shards, self._seconds = process, shards, seconds

    async def run(self) -> None:
        """Give orders."""
        mover, history = mover_of(self._process, self._shards), self._shards.world.checker.history
        while True:
            is_calm = history.calm_since is not None
            await asyncio.sleep(0.2 if is_calm else random.expovariate(1 / self._seconds))
            if len(self._shards.tables) < FIRST_TABLES or self._shards.is_quiet:
                continue
            with suppress(ApportionError):
                await (self._wish(mover, "go") if is_calm else self._order(mover))

    async def _order(self, mover: Mover) -> None:
        draw = random.random()
        if draw < 0.6:
            group = self._drawn(await read_table(self._shards.world.store(self._process)))
            await mover.begin(group, is_reversible=random.random() < _REVERSIBLE_RATIO)
        elif draw < 0.7:
            await self._wish(mover, "abort")
        elif draw < 0.78:
            await self._wish(mover, "pause")
        elif draw < 0.95:
            await self._wish(mover, "go")
        else:
            self._shards.world.trace.cover("a plan of an old table is applied")
            await mover.begin(self._drawn(random.choice(self._shards.tables)))

    def _drawn(self, table: SlotTable) -> MoveGroup:
        """Draw a move that a table allows; half of them bring a slot back to a shard that has had it."""
        shards, owned = self._shards, sorted(table.owners)
        slot = random.choice(owned)
        source = table.shard(slot)
        others = [name for name in shards.names if name != source]
        former = [name for name in others if any(each.owners.get(slot) == name for each in shards.tables)]
        target = random.choice(former if former and random.random() < 0.5 else others)
        slots = tuple(each for each in owned if table.shard(each) == source and (each == slot or random.random() < 0.5))
        shards.world.trace.cover("a slot is to come back" if target in former else "a slot is to move")
        return MoveGroup(move=f"{shards.write()}", source=source, target=target, slots=slots)

    async def _wish(self, mover: Mover, wish: Wish) -> None:
        """Wish something of every move that has another wish."""
        for kept in (await mover.book.read()).kept.values():
            is_due = kept.entry.wish != wish and (wish != "abort" or kept.entry.record.state in BEFORE_SWITCH)
            if is_due and await mover.book.write(kept, kept.entry.wished(wish)):
                self._shards.world.trace.cover(f"wish {wish}")
