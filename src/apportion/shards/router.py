"""Router: finds the shard of a key from memory, and makes sessions that are pinned to the slot of the key.

The table of the set is followed in the background. The engine of a shard is made and checked at its first use: the
database itself names its shard.

Promises: a lookup costs no I/O. The database itself accepts each transaction that begins. The table in memory alone is
never enough.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import ApportionError, BadSnapshot, CrossShard, InvalidInput, StoreClosed
from apportion.model.assignment import Assignment
from apportion.runtime.endings import or_undo
from apportion.runtime.handle import Handle
from apportion.runtime.simulated import Runner
from apportion.shards.dialects import address_of, fence_of
from apportion.shards.forms import Form
from apportion.shards.meta import ShardMeta
from apportion.shards.mover.failover import admission_to
from apportion.shards.mover.rescue import rescued
from apportion.shards.pin import Fence, NotAccepted, Pin
from apportion.shards.pins.key_kinds import KeyKinds
from apportion.shards.pins.statistics import RouterStatistics
from apportion.shards.records import FORMAT, SetKeys, SetRecord, ShardRecord, read_record
from apportion.shards.slots import ShardKey, SlotTable
from apportion.shards.timeline.admission import Admission
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import connect, require_made
from apportion.tables.follower import Follower
from apportion.tables.layout import Version
from apportion.tables.routes import Routes

logger: logging.Logger = logging.getLogger("apportion.shards")
POOL_SIZE = 20
"""The connections of a process to all shards together, but at least one per shard.

Engines that the application makes do not count.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSet:
    """The records of a set and the follower of its table, in one process. The records of added shards come later."""

    url: str
    keys: SetKeys
    record: SetRecord
    shards: dict[str, ShardRecord]
    store: CoordinationStore
    follower: Follower
    damaged: Mapping[str, BadSnapshot] = field(default_factory=dict)

    async def learn(self, shard: str) -> None:
        """Read the record of a shard that was added after the set was opened."""
        key = self.keys.shard(shard)
        for item in (await self.store.scan(key)).items:
            if item.key == key:
                self.shards[shard] = read_record(key, item.value, ShardRecord.decode)

    async def has_left(self, shard: str) -> bool:
        """Whether the control store has no record of a shard any more."""
        key = self.keys.shard(shard)
        return all(item.key != key for item in (await self.store.scan(key)).items)

    def meta(self, shard: str) -> ShardMeta:
        """Return the row that must name the shard in its database."""
        slots, hasher = self.record.hash_slots, self.record.hasher
        return ShardMeta(set_id=self.keys.name, shard=shard, slots=slots, hasher=hasher, format=FORMAT)


async def set_followed(url: str, keys: SetKeys, within_seconds: float, *, needs_all: bool = True) -> FollowedSet:
    """Open the control store, read the records of a set, and follow its table.

    Without `needs_all`, a shard with an unreadable record is `damaged`, and only its own slots are out of reach.
    """
    await require_made(url)
    store = await connect(url)
    async with or_undo(store.close):
        items = {item.key: item.value for item in (await store.scan(keys.prefix)).items}
        if keys.set not in items:
            hint = "Make it: apportion shards init URL SET --shard ID=URL"
            raise InvalidInput("set", keys.name, "one that this control store has", hint)
        record = read_record(keys.set, items[keys.set], SetRecord.decode)
        shards, damaged = shards_in(keys, items)
        if needs_all and damaged:
            raise next(iter(damaged.values()))
        follower = Follower(store, keys.name)
        await follower.start(within_seconds=within_seconds)
    return FollowedSet(
        url=url, keys=keys, record=record, shards=shards, damaged=damaged, store=store, follower=follower
    )


def shards_in(keys: SetKeys, items: Mapping[str, bytes]) -> tuple[dict[str, ShardRecord], dict[str, BadSnapshot]]:
    """Return the shards with readable records, and the error of each unreadable record."""
    shards: dict[str, ShardRecord] = {}
    damaged: dict[str, BadSnapshot] = {}
    for key, value in items.items():
        if shard := keys.shard_of(key):
            try:
                shards[shard] = read_record(key, value, ShardRecord.decode)
            except BadSnapshot as error:
                damaged[shard] = error
    return shards, damaged


async def set_left(followed: FollowedSet) -> None:
    """Stop following, and close the control store."""
    try:
        await followed.follower.close()
    finally:
        await followed.store.close()


def table_of(routes: Routes) -> SlotTable:
    """Return the table of slots in followed routes. `BadSnapshot` if another kind of table was published."""
    if not isinstance(routes.value, Assignment):
        hint = "Publish a table of keys under a name that no set has."
        raise BadSnapshot("table of the set", "a table", "an assignment of slots", hint)
    return SlotTable.of(routes.version, routes.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterOptions:
    """The caller's options for sessions and engines."""

    base: type[DeclarativeBase]
    kinds: KeyKinds
    session: Mapping[str, Any]
    create_engine: Callable[..., Any] | None
    pool_size: int = POOL_SIZE
    has_triggers: bool = True

    def __post_init__(self) -> None:
        if type(self.pool_size) is not int or self.pool_size < 1:
            raise InvalidInput("pool_size", self.pool_size, "an int of at least 1", f"Leave it out to get {POOL_SIZE}.")
        if not isinstance(self.session, Mapping):
            hint = 'Write session={"expire_on_commit": False}.'
            raise InvalidInput("session", self.session, "a mapping of options", hint)
        if self.create_engine is not None and not callable(self.create_engine):
            hint = "Pass a function that takes the URL of a shard."
            raise InvalidInput("create_engine", self.create_engine, "a function", hint)


class ShardRouter(Handle):
    """The part of a router that both forms share.

    `url` is the URL of the control store, `name` the name of the set. `statistics` counts the sessions.
    """

    def __init__(self, form: Form, options: RouterOptions, followed: FollowedSet, thread: Runner) -> None:
        self._followed, self._thread, self._form, self._options = followed, thread, form, options
        self._follower, self._has_triggers, self._kinds = followed.follower, options.has_triggers, options.kinds
        self.url: str = followed.url
        self.name: str = followed.keys.name
        self.statistics: RouterStatistics = RouterStatistics()
        self._made: dict[str, tuple[Any, Engine, Fence]] = {}
        self._lent: WeakSet[Connection] = WeakSet()
        self._is_closed, self._process = False, os.getpid()
        self._making = threading.Lock()
        self._known: SlotTable | None = None
        self._is_rescuing = False
        self._arrived: frozenset[int] = frozenset()
        self._pinned: ContextVar[Pin | None] = ContextVar("apportion_pin", default=None)

    @property
    def table(self) -> SlotTable:
        """The newest table in the memory of the follower."""
        routes = self._follower.routes
        known = self._known
        if known is None or known.version != routes.version:
            newer = table_of(routes)
            if known is not None:
                self._arrived |= newer.arrivals(known)
            self._known = known = newer
        return known

    @property
    def arrived(self) -> Set[int]:
        """The slots that newer tables gave to another shard, and that this process has not settled yet."""
        return self._arrived

    def settled(self, slots: Set[int]) -> None:
        """Take slots out of `arrived`."""
        self._arrived -= slots

    @property
    def has_triggers(self) -> bool:
        """Whether the databases themselves refuse writes of slots that they do not own."""
        return self._has_triggers

    @property
    def version(self) -> Version:
        """The version of the table in use."""
        return self.table.version

    def slot(self, key: ShardKey) -> int:
        """Return the slot of a key. `InvalidInput` for a key of a kind that no model has."""
        return self.table.slot(self._kinds.checked(key))

    def shard(self, key: ShardKey) -> str:
        """Return the id of the shard that has a key."""
        table = self.table
        return table.shard(table.slot(self._kinds.checked(key)))

    @contextmanager
    def pin(self, key: ShardKey) -> Iterator[None]:
        """Inside the block, pin all new sessions of this task or thread to one key. Another key raises `CrossShard`."""
        mark = self._pinned.set(self._pin_for(key, (), is_read_only=False))
        try:
            yield
        finally:
            self._pinned.reset(mark)

    def refreshed(self, version: Version, within_seconds: float) -> SlotTable:
        """Return a table newer than `version`. `StoreUnavailable` if none came in time. Blocks the caller."""
        self._form.wait(self._thread, self._follower.refresh(version, within_seconds=within_seconds))
        return self.table

    def engine(self, shard: str) -> tuple[Engine, Fence]:
        """Return the engine of a shard, and its fence. The engine is made and checked at its first use."""
        self._check_open()
        made = self._made.get(shard)
        if made is None:
            made = self._engine_made(shard)
        return made[1:]

    def _check_open(self) -> None:
        if self._process != os.getpid():
            hint = "Open the set in the child: apportion.open_shards(url, name, base=Base)."
            raise StoreClosed("a set of shards", "it belongs to the parent of this forked process", hint)
        if self._is_closed:
            raise _closed()

    def lent(self, connection: Connection) -> None:
        """Note a connection of a session. The end of the router takes the connection away."""
        with self._making:
            if not self._is_closed:
                self._lent.add(connection)
                return
        connection.invalidate()
        raise _closed()

    def _taken(self) -> None:
        """Take the connections away from their sessions. Uncommitted work is undone, and no file stays locked."""
        with self._making:
            self._is_closed = True
            lent = [*self._lent]
        for connection in lent:
            if not connection.closed:
                connection.invalidate()

    def _engine_made(self, shard: str) -> tuple[Any, Engine, Fence]:
        followed = self._followed
        if shard not in followed.shards:
            self._form.wait(self._thread, followed.learn(shard))
        if shard not in followed.shards:
            hint = "Add it: apportion shards add URL SET ID=URL"
            raise InvalidInput("shard", shard, "one with a record in the control store", hint)
        address = address_of(followed.shards[shard].address(), self._form.drivers)
        fence = fence_of(address)
        options = self._options
        budget = {"pool_size": max(1, options.pool_size // len(followed.shards)), "max_overflow": 0}
        engine, sync_engine = self._form.engine(address, options.create_engine, budget)
        fence.prepare(sync_engine, self._admission(shard))
        with ExitStack() as undone:
            undone.callback(sync_engine.dispose)
            with sync_engine.connect() as connection:
                try:
                    fence.check(connection, followed.meta(shard))
                except InvalidInput:
                    if self._form.wait(self._thread, followed.has_left(shard)):
                        raise NotAccepted(is_switching=False) from None  # The table in memory is older.
                    raise
            with self._making:
                made = self._made.setdefault(shard, (engine, sync_engine, fence))
            if made[1] is sync_engine:  # Otherwise another thread was first.
                undone.pop_all()
        return made

    def _admission(self, shard: str) -> Admission:
        """Return the admission of new connections to a shard."""
        followed, wait = self._followed, partial(self._form.wait, self._thread)
        meta = followed.meta(shard)
        return admission_to(followed.store, followed.shards, meta, lambda: wait(followed.has_left(shard)), wait)

    def rescue(self, slots: Sequence[int]) -> None:
        """Start a task that ends the fence of slots. Only one rescue runs at a time."""
        with self._making:
            if self._is_rescuing or self._is_closed:
                return
            self._is_rescuing = True
        self._thread.send(self._rescued(slots))

    async def _rescued(self, slots: Sequence[int]) -> None:
        followed = self._followed
        try:
            await rescued(followed.url, followed.keys.name, followed.shards, slots)
        except ApportionError as error:
            logger.warning("slots %s of set %s wait for a mover: %s", list(slots), followed.keys.name, error)
        finally:
            self._is_rescuing = False

    def _engines(self) -> list[Any]:
        """Return the engines that were made, and forget them. From now on no engine is made."""
        with self._making:
            self._is_closed = True
            made, self._made = self._made, {}
        return [engine for engine, _, _ in made.values()]

    def _pin_for(self, key: ShardKey | None, keys: Sequence[ShardKey], *, is_read_only: bool) -> Pin:
        """Return the pin of a session: to its own keys, or to the key of the block around it."""
        if isinstance(keys, str | bytes):
            raise InvalidInput("keys", keys, "a list of keys", "Pass a single key alone: router.session(key).")
        if not isinstance(keys, Iterable):
            hint = 'Write router.session(keys=["FR", "DE"]), or leave it out.'
            raise InvalidInput("keys", keys, "a list of keys", hint)
        named = tuple(keys) if key is None else (key, *keys)
        outer = self._pinned.get()
        if not named and outer is None:
            hint = 'Write router.session("FR"), or make it in a block of router.pin("FR").'
            raise InvalidInput("key of a session", None, "a key", hint)
        if not named and outer is not None:
            return replace(outer, is_read_only=is_read_only)
        table = self.table
        slots = tuple(sorted({table.slot(self._kinds.checked(each)) for each in named}))
        if outer is not None and slots != outer.slots:
            outer.check(table)
            raise CrossShard(named[0], slots[0], outer.slots)
        pin = Pin(roads=self, keys=named, slots=slots, is_read_only=is_read_only)
        pin.shard_in(table)
        return pin


def _closed() -> StoreClosed:
    return StoreClosed("a set of shards", hint="Use sessions within the block of open_shards.")
