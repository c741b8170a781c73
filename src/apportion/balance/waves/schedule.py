"""`schedule`: the difference of two assignments as waves of steps that are safe to stop at any moment.

No replica of a partition is dropped before the partition's whole new list is live. So at every moment, one of two sets
of replicas is complete: those that were live at the start, or the new list. `docs/balance/schedule.md` tells the rest.

Promises, with a floor f: a partition that starts with f + 1 live replicas or more keeps at least f + 1. A partition
that starts with fewer (`below_floor`) keeps at least as many, and is recovered in the first waves. A leader holds a
whole replica. A partition without a live leader is led by a live replica from the end of the first wave on. Afterwards
live nodes hold exactly the replicas that `after` lists.
Promises, for all partitions: no wave exceeds the throttle; no load moves before the last wave of recovery copies is
done.

A replica is live when `before` lists it on a node of the new topology that is not down in `after`. Replicas on nodes
that are gone or down do not count: they are no source, and no step drops them.
Refuses: to look at how the steps are done. A node that dies during the schedule ends it. Make a new schedule from an
assignment that lists the replicas that exist by then.

Source: recovery before load, and limits per node and cluster, as Apache Helix has them; add before remove.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NoReturn, TypeAlias

from apportion.balance.arguments import check_assignment
from apportion.balance.waves.copies import Copying, Turn
from apportion.errors import InvalidInput, UnknownOption
from apportion.model.assignment import Assignment
from apportion.model.rows import Row
from apportion.model.schedule import Drop, Lead, Schedule, Wave
from apportion.model.throttle import Throttle

Lost: TypeAlias = Literal["refuse", "leave"]

STANDARD = Throttle(per_node=2)


def schedule(
    before: Assignment,
    after: Assignment,
    *,
    throttle: Throttle = STANDARD,
    floor: int | None = None,
    now: float | None = None,
    lost: Lost = "refuse",
) -> Schedule:
    """Return waves of copies, changes of leader and drops that lead from one assignment to another, safe at any moment.

    `floor` is the number of live replicas that each partition keeps when any one node dies during the schedule. Its
    default is the largest possible: one less than the shortest list of `after`. Without a `throttle`, a node takes
    part in two copies at once; `Throttle()` sets no limit. `now` (seconds) is needed where the throttle expires.
    Partitions without a live replica are refused; with `lost="leave"` they are left alone and reported. Partitions
    that `after` no longer has are dropped in the last wave; new ones are made empty. Changes of leader and drops are
    not limited: they copy nothing.

    Order: by urgency, then by partition. Among the sources that allow the earliest wave, the one that has sent least
    is taken, then by id. O(partitions · replicas), and O(waves) at worst for each copy. Raises `InvalidInput`.

    >>> from apportion import Topology
    >>> before = Assignment(topology=Topology(["a", "b", "c"]), rows=((0, 1), (0, 2)))
    >>> after = Assignment(topology=before.topology, rows=((2, 1), (0, 2)))
    >>> for wave in schedule(before, after).waves:
    ...     print(wave)
    '0' copy a -> c
    '0' lead a -> c
    '0' drop a
    """
    _check_sides(before, after, throttle)
    if lost not in ("refuse", "leave"):
        raise UnknownOption("lost", lost, ("refuse", "leave"))
    in_force = throttle.at(now)
    floor = _checked_floor(floor, after)
    turns = list(_turns(before, after))
    without_source = tuple(turn.partition for turn in turns if turn.owners and not turn.held)
    if without_source and lost == "refuse":
        _refuse_lost(without_source)
    turns = [turn for turn in turns if turn.held or not turn.owners]
    return Schedule(
        before=before.epoch,
        after=after.epoch,
        waves=_waves(turns, _removed(before, after), after, in_force),
        throttle=in_force,
        floor=floor,
        below_floor=tuple(turn.partition for turn in turns if 0 < len(turn.held) <= floor),
        lost=without_source,
    )


def _turns(before: Assignment, after: Assignment) -> Iterator[Turn]:
    """Yield the partitions of `after` that need a step, in order."""
    up = _up(after)
    old_id, new_id = before.topology.ids.__getitem__, after.topology.ids.__getitem__
    lists = zip(after.preference_lists, _rows_before(before, after), after.rows, strict=True)
    for place, (partition, old, new) in enumerate(lists):
        owners, wanted = tuple(map(old_id, old)), tuple(map(new_id, new))
        if not wanted or not up.issuperset(wanted):
            hint = "Name the nodes that are up: balance.optimal(..., live=[...])."
            raise InvalidInput(f"owners of {partition!r} after", ", ".join(wanted), "live nodes only", hint)
        if owners != wanted:
            held = tuple(node for node in owners if node in up)
            size = _size(partition, before) if after.sizes is None else after.sizes[place]
            turn = Turn(partition=partition, owners=owners, held=held, wanted=wanted, size_bytes=size)
            if turn.missing or turn.unwanted or turn.leader != wanted[0]:
                yield turn


def _rows_before(before: Assignment, after: Assignment) -> Sequence[Row]:
    """Return the owners in `before` of each partition of `after`, in the order of `after`."""
    if before.names == after.names and len(before.rows) == len(after.rows):
        return before.rows
    places = map(before.preference_lists.place, after.preference_lists)
    return [() if place is None else before.rows[place] for place in places]


def _removed(before: Assignment, after: Assignment) -> list[Drop]:
    """Return the drops of the partitions that `after` no longer has."""
    up, kept = _up(after), after.preference_lists
    return [
        Drop(partition=partition, node=node, size_bytes=_size(partition, before))
        for partition in before.preference_lists
        if kept.place(partition) is None
        for node in before[partition]
        if node in up
    ]


def _up(after: Assignment) -> set[str]:
    return set(after.topology.ids).difference(after.down)


def _size(partition: str, before: Assignment) -> int | None:
    return before.size(partition) if before.preference_lists.place(partition) is not None else None


def _waves(turns: Sequence[Turn], removed: Sequence[Drop], after: Assignment, throttle: Throttle) -> tuple[Wave, ...]:
    """Return every step in its wave: for each partition first the copies, then its leader, and only then the drops."""
    copying = Copying(after, throttle)
    load_start = copying.place(turns)
    leads: dict[int, list[Lead]] = defaultdict(list)
    drops: dict[int, list[Drop]] = defaultdict(list)
    for turn in turns:
        copied_in = copying.waves_of[turn.partition]
        last = max(copied_in.values(), default=-1)
        for wave, lead in _leads(turn, copied_in, load_start):
            leads[wave].append(lead)
            last = max(last, wave)
        for node in turn.unwanted:
            drop = Drop(partition=turn.partition, node=node, size_bytes=turn.size_bytes)
            drops[max(last + 1, load_start)].append(drop)
    count = max([0 if removed else -1, *copying.copies, *leads, *drops]) + 1
    if removed:
        drops[count - 1] += removed
    return tuple(
        Wave(copies=tuple(copying.copies[wave]), leads=tuple(leads[wave]), drops=tuple(drops[wave]))
        for wave in range(count)
    )


def _leads(turn: Turn, copied_in: Mapping[str, int], load_start: int) -> Iterator[tuple[int, Lead]]:
    """Yield the changes of leader of a partition, each with its wave.

    A partition without a leader gets a live one at once. That leader serves, if need be, until the final one has its
    copy.
    """
    leader, final = turn.leader, turn.wanted[0]
    if final in copied_in:
        wave = copied_in[final] + 1
        if leader is None and turn.held:
            leader = next((node for node in turn.wanted if node in turn.held), turn.held[0])
            yield 0, Lead(partition=turn.partition, node=leader, was=None)
    else:
        wave = 0 if leader is None else load_start
    if leader != final:
        yield wave, Lead(partition=turn.partition, node=final, was=leader)


def _check_sides(before: Assignment, after: Assignment, throttle: Throttle) -> None:
    for name, side in (("before", before), ("after", after)):
        check_assignment(name, side)
    if before.topology.cluster != after.topology.cluster:
        expected = f"{before.topology.cluster!r}, as before"
        raise InvalidInput("cluster after", after.topology.cluster, expected, "Stay within one cluster.")
    if not isinstance(throttle, Throttle):
        hint = "Write Throttle(per_node=2), or Throttle() for no limit."
        raise InvalidInput("throttle", throttle, "a Throttle", hint)


def _checked_floor(floor: int | None, after: Assignment) -> int:
    shortest = min(map(len, after.rows))
    if floor is None:
        return max(shortest - 1, 0)
    if type(floor) is not int or floor < 0:
        raise InvalidInput("floor", floor, "an int, not negative", "It counts the live replicas after a node died.")
    if floor >= shortest:
        partition = next(name for name, owners in after.preference_lists.items() if len(owners) == shortest)
        expected = f"less than {shortest}, the replicas of partition {partition!r}"
        raise InvalidInput("floor", floor, expected, "One node may die: assign more replicas, or lower the floor.")
    return floor


def _refuse_lost(partitions: Sequence[str]) -> NoReturn:
    more = f" (and {len(partitions) - 1} more)" if len(partitions) > 1 else ""
    hint = 'Bring back a node that held it, or schedule the others with lost="leave".'
    raise InvalidInput(f"live replicas of partition {partitions[0]!r}{more}", 0, "at least 1 to copy from", hint)
