"""Pin: the slots that a session keeps for its whole life. It opens a fenced connection to their shard.

A fence is the first act of every transaction on a shard. It tells whether the shard accepts the slots under the version
of the caller's table. If the shard refuses them, the caller refreshes its table and goes to the new shard. During a
switch, the caller waits for its end.

Promises: the database itself accepts each transaction that begins. The caller's table alone is never enough.
"""

from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Table

from apportion.errors import CrossShard, StaleRoute, StoreUnavailable
from apportion.shards.meta import ShardMeta
from apportion.shards.pins.statistics import FenceWait, RouterStatistics
from apportion.shards.slot_rows import SlotState
from apportion.shards.slots import ShardKey, SlotTable
from apportion.shards.timeline.admission import Admission
from apportion.tables.layout import Version

SWITCH_SECONDS = 2.0
"""The longest wait for a switch that is under way."""

_LOOK_SECONDS = 0.05

PIN_OPTION = "apportion_pin"
"""The connection option that holds the pin.

With the pin, an error of the driver becomes a `CrossShard` that names the slots.
"""


class NotAccepted(Exception):
    """A shard does not accept a slot under the caller's version. `is_switching`: it may accept the slot soon."""

    def __init__(self, *, is_switching: bool) -> None:
        super().__init__(is_switching)
        self.is_switching = is_switching


class Fence(Protocol):
    """The code for one dialect: it begins the transactions of an engine, and asks whether a shard accepts slots."""

    read_only: Mapping[str, bool]
    """The options of a connection that only reads."""

    snapshot: Mapping[str, Any]
    """The options of a connection that reads all tables from one snapshot."""

    def prepare(self, engine: Engine, admission: Admission | None = None) -> None:
        """Make the engine begin transactions as the fence needs. Called once for each engine.

        A fence of servers asks the `admission` for each new connection.
        """

    def check(self, connection: Connection, meta: ShardMeta) -> None:
        """Refuse a database that is not the shard that the control store names. Called once for each engine."""

    def enter(self, connection: Connection, slots: Sequence[int], version: Version, *, is_read_only: bool) -> None:
        """Ask the shard in a transaction that has just begun. `NotAccepted` if the shard refuses any of the slots.

        `StoreWentBack` if the server is not on the noted timeline, and may lack commits.
        """

    def settle(self, engine: Engine, slots: Sequence[int], version: Version) -> None:
        """Make a shard the owner of slots that have just come to it, before a writer enters.

        `NotAccepted` as in `enter`.
        """

    def states(self, connection: Connection) -> Mapping[int, SlotState]:
        """Return the state of each slot that has a row here.

        Leave out an incoming slot that has no number yet, and a slot that may have old rows of an isolated key.
        """

    def others(self, connection: Connection) -> Set[int]:
        """Return the slots that may have rows of tables here that no reader of all shards may count.

        They have no owner's state, or may have old rows of an isolated key.
        """

    def limit(self, connection: Connection, seconds: float | None) -> None:
        """Limit each statement of the transaction of a connection. None ends the limit, also after the transaction."""

    def found(self, connection: Connection, meta: ShardMeta, tables: Sequence[Table], slots: Sequence[int]) -> None:
        """Turn the database into this shard: add triggers to the tables, and make the shard the owner of the slots."""


class Roads(Protocol):
    """A router as a pin needs it: the newest known table, a wait for a newer one, and the engines of the shards."""

    statistics: RouterStatistics
    """The counts of the router."""

    @property
    def table(self) -> SlotTable:
        """The table in use."""

    @property
    def has_triggers(self) -> bool:
        """Whether the databases themselves refuse writes of slots that they do not own."""

    @property
    def arrived(self) -> Set[int]:
        """The slots that newer tables gave to another shard, and that this process has not settled yet."""

    def settled(self, slots: Set[int]) -> None:
        """Take slots out of `arrived`."""

    def refreshed(self, version: Version, within_seconds: float) -> SlotTable:
        """Return a table newer than `version`. `StoreUnavailable` if none came in time. Blocks the caller."""

    def engine(self, shard: str) -> tuple[Engine, Fence]:
        """Return the engine of a shard, and its fence."""

    def lent(self, connection: Connection) -> None:
        """Note a connection that a session uses. `StoreClosed` if the router has ended."""

    def rescue(self, slots: Sequence[int]) -> None:
        """Start a task that ends the fence of slots, in case their mover has died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Slots, all on one shard, and the keys that a caller named. `ShardRouter` makes it for a session."""

    roads: Roads
    keys: tuple[ShardKey, ...]
    slots: tuple[int, ...]
    is_read_only: bool = False

    @property
    def key(self) -> object:
        """The key that a caller named, or a tuple of several keys."""
        return self.keys[0] if len(self.keys) == 1 else self.keys

    def refused(self) -> None:
        """Count a session that got `StaleRoute`."""
        counted = self.roads.statistics
        counted.refused()

    def check(self, table: SlotTable, shard: str | None = None) -> None:
        """Raise `StaleRoute` if a key has another slot in this table: it got or lost its own slot."""
        if any(table.slot(key) not in self.slots for key in self.keys):
            raise StaleRoute(self.key, shard or table.shard(table.slot(self.keys[0])), table.version)

    def check_open(self, shard: str) -> None:
        """Raise `StoreClosed` if the router has ended, or if this process is a forked child."""
        self.roads.engine(shard)

    def connected(self, kept: str | None) -> tuple[str, Connection]:
        """Return the shard of the slots, and a connection to it in a fenced transaction. The caller closes it.

        `kept` is the shard that the session has read from. With `kept`, `StaleRoute` comes at once if that shard no
        longer accepts the slots. Without it, `StaleRoute` comes if no shard accepted them in time.
        """
        with FenceWait(self.roads.statistics) as wait:
            return self._connected(kept, wait)

    def _connected(self, kept: str | None, wait: FenceWait) -> tuple[str, Connection]:
        until = monotonic() + SWITCH_SECONDS
        table = self.roads.table
        while True:
            self.check(table, kept)
            shard = self.shard_in(table)
            if kept is not None and kept != shard:
                raise StaleRoute(self.key, kept, table.version)
            try:
                return shard, self._entered(shard, table.version)
            except NotAccepted as refused:
                # The own slot of a key may be on its way: its shard has no row of it yet, or a pin was cut off.
                is_on_way = refused.is_switching or self.slots[-1] >= table.hash_slots
                if refused.is_switching:
                    wait.begins()
                if kept is not None or monotonic() > until:
                    if is_on_way and kept is None:
                        self.roads.rescue(self.slots)
                    raise StaleRoute(self.key, shard, table.version) from None
                table = self._newer(table, is_on_way=is_on_way, left=until - monotonic())

    def shard_in(self, table: SlotTable) -> str:
        """Return the shard that a table names for the slots. `CrossShard` if they lie on several shards."""
        shard, *others = sorted({table.shard(slot) for slot in self.slots})
        if others:
            hint = f"The keys lie on {', '.join((shard, *others))}. Open a session for each."
            raise CrossShard(self.key, self.slots[-1], self.slots[:1], hint)
        return shard

    def _entered(self, shard: str, version: Version) -> Connection:
        engine, fence = self.roads.engine(shard)
        if not self.is_read_only and (arrived := self.roads.arrived & {*self.slots}):
            fence.settle(engine, sorted(arrived), version)
            self.roads.settled(arrived)
        with ExitStack() as stack:
            connection = stack.enter_context(engine.connect())
            self.roads.lent(connection)
            connection.execution_options(**{PIN_OPTION: self}, **(fence.read_only if self.is_read_only else {}))
            connection.begin()
            fence.enter(connection, self.slots, version, is_read_only=self.is_read_only)
            stack.pop_all()
        return connection

    def _newer(self, table: SlotTable, *, is_on_way: bool, left: float) -> SlotTable:
        """Return a newer table, or the same one after a wait, because a fenced slot may come back to its owner."""
        try:
            return self.roads.refreshed(table.version, min(left, _LOOK_SECONDS) if is_on_way else left)
        except StoreUnavailable:
            return table
