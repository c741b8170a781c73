"""Plans: the plan from one placement or assignment to the next, and its application to a table.

Between two tables the plan is exact: their boundaries are merged, so no position is missed or guessed. A function of
the key has no table; then the plan is counted over the keys that are passed. Between two assignments the plan is
counted over all their partitions.

Promises: `plan` only compares; it decides nothing. `apply` needs exactly the table that the plan was made from, and
makes exactly the table that the plan leads to. Otherwise it refuses (`StaleEpoch`, `PlanRefused`) and makes nothing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from apportion.errors import InvalidInput, InvariantBroken, PlanRefused, StaleEpoch
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.model.epoch import Epoch
from apportion.model.plan import Change, Key, Plan
from apportion.model.table import Owners, Table
from apportion.model.token import POSITIONS
from apportion.model.topology import Topology
from apportion.placement.api import Placement, check_placement
from apportion.placement.keys.key_bytes import listed
from apportion.placement.shapes.twin_table import LaidTable, both_laid

Placed: TypeAlias = Placement | Table
Planned: TypeAlias = Placed | Assignment


def plan(old: Planned, new: Planned, keys: Iterable[Key] | None = None, *, replicas: int = 1) -> Plan:
    """Return the moves when `new` replaces `old`.

    The plan is exact if both have a table and no keys are passed: O(stretches of both). Otherwise it is counted over
    `keys`, every key as often as it is passed: O(keys). `replicas` compares preference lists of that length. Two
    assignments are compared partition by partition, with the replicas that they hold.

    Raises `InvalidInput` if the clusters differ, if tables have different hashers, or if a placement without a table
    comes without keys.

    >>> from apportion import Ring
    >>> ring = Ring(["a", "b", "c"])
    >>> change = plan(ring, ring.on(ring.topology.add("d")))
    >>> change.moved_ratio == change.lower_bound_ratio, change.stray_ratio, {move.target for move in change.moves}
    (True, 0.0, {'d'})
    """
    for name, placed in (("old", old), ("new", new)):
        if not isinstance(placed, (Assignment, Table)):
            check_placement(name, placed)
    _check_clusters(old.topology, new.topology)
    if isinstance(old, Assignment) or isinstance(new, Assignment):
        return _assigned(old, new, keys, replicas)
    if keys is not None:
        return _counted(old, new, list(listed(keys)), replicas)
    if type(replicas) is int and replicas == 1 and (laid := both_laid(old, new)):
        return _exact(*laid, laid[0].diff(laid[1]))
    before, after = _table(old, replicas), _table(new, replicas)
    if before is None or after is None:
        function = old if before is None else new
        hint = "Pass keys=[...], real ones if you can; --keys FILE on the command line."
        raise InvalidInput("keys", None, f"the keys to count, because {type(function).__name__} has no table", hint)
    return _exact(before, after, before.diff(after))


def apply(change: Plan, table: Table) -> Table:
    """Return the table that a plan leads to, made from the table at the start of the plan. O(stretches).

    Raises `StaleEpoch` if the number or digest of the table's epoch differs from the plan's. Raises `PlanRefused` if
    the plan was counted.

    >>> from apportion import Ring
    >>> small, big = Ring(["a", "b"]), Ring(["a", "b"]).on(Ring(["a", "b"]).topology.add("c"))
    >>> apply(plan(small, big), small.table()) == big.table()
    True
    """
    if not isinstance(change, Plan):
        raise InvalidInput("change", change, "a Plan", "Make one with plan(old, new).")
    if not isinstance(table, Table):
        raise InvalidInput("table", table, "a Table", "Pass the table() of a placement.")
    if not change.exact:
        raise PlanRefused(f"it was counted over {change.counted} and holds no ranges")
    if table.epoch != change.before:
        raise StaleEpoch(seen=change.before, current=table.epoch)
    result = table.changed(change.changes, change.new, slots=change.slots)
    if result.epoch != change.after:
        raise InvariantBroken(f"the plan leads to {result.epoch}, not to {change.after}")
    return result


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The owners of a key while data moves: write to `both`, read from `current` and then `previous`."""

    current: Owners
    previous: Owners

    @property
    def both(self) -> Owners:
        """The current owners, then the previous owners that own no more."""
        return tuple(dict.fromkeys(self.current + self.previous))


def handover(old: Placement, new: Placement, key: Key, *, replicas: int = 1) -> Handover:
    """Return the owners of a key in the current and the previous placement, in one call.

    >>> from apportion import Ring
    >>> ring = Ring(["a", "b"])
    >>> handover(ring, ring.on(ring.topology.add("c")), "tenant-1").both
    ('c', 'b')

    Raises `InvalidInput` if the clusters differ.
    """
    check_placement("old", old)
    check_placement("new", new)
    _check_clusters(old.topology, new.topology)
    return Handover(current=new.preference(key, replicas), previous=old.preference(key, replicas))


def _check_clusters(old: Topology, new: Topology) -> None:
    if old.cluster != new.cluster:
        hint = "Compare placements of one cluster; check the files passed."
        raise InvalidInput("cluster", new.cluster, repr(old.cluster), hint)


def epoch_of(placed: Placed) -> Epoch:
    """Return the epoch that plans compare: of the table if there is one, else of the topology. O(stretches)."""
    table = _table(placed, 1)
    return placed.topology.epoch if table is None else table.epoch


def _table(placed: Placed, replicas: int) -> Table | None:
    if not isinstance(placed, Table):
        return placed.table(replicas)
    if replicas != 1:
        hint = "Pass the placements. Or make the tables with that many replicas, and leave replicas= out."
        raise InvalidInput("replicas", replicas, "1 with a Table, because its rows are fixed", hint)
    return placed


def _exact(before: Table | LaidTable, after: Table | LaidTable, changes: tuple[Change, ...]) -> Plan:
    return Plan(
        before=before.epoch,
        after=after.epoch,
        old=before.topology,
        new=after.topology,
        hasher=before.hasher,
        exact=True,
        changes=changes,
        span=POSITIONS if before.is_measurable else 0,
        widths_before=before.widths(),
        widths_after=after.widths(),
        slots=after.slots,
    )


def _assigned(old: Planned, new: Planned, keys: Iterable[Key] | None, replicas: int) -> Plan:
    if not isinstance(old, Assignment) or not isinstance(new, Assignment):
        other = new if isinstance(old, Assignment) else old
        hint = "For Slots, compare their assignments: slots.assignment."
        raise InvalidInput("the other side of the plan", other, "an Assignment on both sides", hint)
    if keys is not None or replicas != 1:
        hint = "Leave keys and replicas out: an assignment names its partitions and their owners."
        raise InvalidInput("keys or replicas", "given", "no value, with assignments", hint)
    return Plan(
        before=old.epoch,
        after=new.epoch,
        old=old.topology,
        new=new.topology,
        hasher="",
        exact=False,
        counted="partitions",
        changes=new.changes_from(old),
        span=len(new.rows),
        widths_before=old.loads,
        widths_after=new.loads,
    )


def _counted(old: Placed, new: Placed, keys: list[Key], replicas: int) -> Plan:
    if isinstance(old, Table) or isinstance(new, Table):
        hint = "Pass the placements, or leave keys out."
        raise InvalidInput("keys", "given", "none, because a table cannot hash them", hint)
    if not keys:
        raise InvalidInput("keys", "an empty list", "at least one key", "Pass the keys to count.")
    before, after = _owners(old, keys, replicas), _owners(new, keys, replicas)
    return Plan(
        before=epoch_of(old),
        after=epoch_of(new),
        old=old.topology,
        new=new.topology,
        hasher="",
        exact=False,
        changes=tuple(Change(key, was, now) for key, was, now in zip(keys, before, after, strict=True) if was != now),
        span=len(keys),
        widths_before=_count(before, old.topology),
        widths_after=_count(after, new.topology),
    )


def _owners(placement: Placement, keys: list[Key], replicas: int) -> list[Owners]:
    if replicas == 1:
        return [(node_id,) for node_id in placement.route_many(keys)]
    return [placement.preference(key, replicas) for key in keys]


def _count(lists: list[Owners], topology: Topology) -> dict[str, int]:
    counts = Counter(node_id for owners in lists for node_id in owners)
    return {node_id: counts[node_id] for node_id in topology.ids}
