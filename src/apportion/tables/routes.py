"""Routes: one version of a followed table, prepared so that an answer needs no I/O and no lock.

Promises: `Routes` never changes, so the next version does not affect a reader of this one. A `Frozen` placement uses
the native twin.
Refuses: to route keys by an assignment (name the partition instead), and to find owners of partitions in a table.
"""

from dataclasses import dataclass
from typing import TypeAlias

from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment, PreferenceList
from apportion.model.epoch import Epoch
from apportion.model.plan import Key
from apportion.model.table import Table
from apportion.placement.frozen import Frozen
from apportion.placement.hashers import Hasher
from apportion.placement.ranges import Ranges
from apportion.tables.deltas import Routing
from apportion.tables.layout import Version

Laid: TypeAlias = Frozen | Ranges

_INT_ORDER = "int-order"  # the `hasher` in the tables that `Ranges` over ints make
_FIRST_INT = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """A version and its value. `placement` has more calls, such as `route_many` and `explain`."""

    version: Version
    epoch: Epoch
    value: Routing
    laid: Laid | None

    @classmethod
    def of(cls, version: Version, value: Routing, epoch: Epoch, hasher: str | Hasher | None = None) -> "Routes":
        """Build the routes of a value. O(size).

        `InvalidInput` or `UnknownOption` when keys cannot be hashed as the table says.
        """
        if isinstance(value, Assignment):
            value.preference_lists.place("")  # makes the index of names now, so that the first reader need not wait
            return cls(version=version, epoch=epoch, value=value, laid=None)
        return cls(version=version, epoch=epoch, value=value, laid=laid(value, hasher))

    @property
    def placement(self) -> Laid:
        """The table as a placement: `route_many`, `explain`, …; `InvalidInput` for an assignment."""
        if self.laid is None:
            hint = "Ask owner(partition). To route keys, publish the table() of a placement."
            raise InvalidInput("followed value", "an assignment", "a table, to route keys", hint)
        return self.laid

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self.placement.route(key)

    def preference(self, key: Key, count: int) -> tuple[str, ...]:
        """Return the first `count` owners of a key's range, the leader first; `NotEnoughNodes` if there are fewer."""
        return self.placement.preference(key, count)

    def owners(self, partition: str | int) -> PreferenceList:
        """Return all owners of a partition, the leader first; `InvalidInput` when no partition has that name."""
        if not isinstance(self.value, Assignment):
            hint = "Ask route(key). To ask for partitions, publish an assignment."
            raise InvalidInput("followed value", "a table", "an assignment, to ask for partitions", hint)
        return self.value[partition]

    def owner(self, partition: str | int) -> str | None:
        """Return the id of the node that owns or leads a partition; None when the partition has no owner now."""
        return next(iter(self.owners(partition)), None)


def laid(table: Table, hasher: str | Hasher | None = None) -> Laid:
    """Return the placement that routes by a table: ordered keys by their ranges, all others by their hash."""
    if table.is_measurable and table.hasher != _INT_ORDER:
        return Frozen(table, hasher=hasher)
    bounds: list[Key] = [start + _FIRST_INT if isinstance(start, int) else start for start in table.starts[1:]]
    owners = [tuple(table.topology.ids[index] for index in row) for row in table.rows]
    if table.is_measurable and not bounds:
        # `Ranges` needs a boundary to know that keys are ints. This one has the same owners on both sides.
        bounds, owners = [0], owners * 2
    return Ranges(table.topology, bounds=bounds, owners=owners)
