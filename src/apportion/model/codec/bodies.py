"""Bodies: each value as a JSON body with columns of numbers beside it, for the codec to write.

A body never contains a float (weights are in millionths), so a reader in any language sees the same numbers. This file
checks the shape of a body; the value made from it checks all other rules.
"""

from collections.abc import Callable
from dataclasses import replace

from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.codec.assignment_body import assignment_form, assignment_of, members_of_assignment
from apportion.model.codec.columns import (
    Columns,
    SavedColumns,
    ends_of,
    number_column,
    numbers_of,
    position_columns,
    positions_of,
    row_column,
    rows_of,
    wide_column,
    wide_numbers_of,
)
from apportion.model.codec.parsing import Json, epoch, hexadecimal, integer, items, members, names_in, refuse, text
from apportion.model.plan import Change, Plan
from apportion.model.rows import Row
from apportion.model.table import Table
from apportion.model.token import KeyRange, Position, is_before, position_text
from apportion.model.topology import Topology, nodes_of

TABLE_MEMBERS = ("hasher", "slots", "replicas", "topology")


def to_form(value: Topology | Table | Assignment | Plan) -> tuple[Json, Columns]:
    """Return the JSON body of a value, and its columns."""
    columns: Columns = {}
    body: dict[str, Json]
    match value:
        case Topology():
            body = _topology_members(value, "", columns)
        case Table():
            columns |= position_columns("starts", value.starts)
            body = {"hasher": value.hasher, "slots": value.slots or 0}
            body["replicas"], columns["owners"] = row_column(value.rows)
            body["topology"] = _topology_members(value.topology, "", columns)
        case Assignment():
            form, columns = assignment_form(value)
            body = {**form, "topology": _topology_members(value.topology, "", columns)}
        case Plan():
            body = _plan_members(value, columns)
    return body, columns


def _topology_members(topology: Topology, prefix: str, columns: Columns) -> dict[str, Json]:
    zones = sorted({node.zone for node in topology})
    places = {zone: place for place, zone in enumerate(zones)}
    columns[f"{prefix}zones"] = number_column([places[node.zone] for node in topology], 4)
    columns[f"{prefix}weights"] = number_column([node.millionths for node in topology], 8)
    return {"number": topology.number, "ids": topology.ids, "zones": zones}


def _plan_members(plan: Plan, columns: Columns) -> dict[str, Json]:
    if not plan.exact:
        hint = "Make the plan of two tables, without keys=. For assignments, save the new assignment instead."
        raise InvalidInput("plan", f"a plan counted over {plan.counted}", "an exact plan", hint)
    ranges = [change.item for change in plan.changes if isinstance(change.item, KeyRange)]
    columns |= position_columns("starts", [item.start for item in ranges])
    columns |= position_columns("ends", [item.end for item in ranges])
    before = [tuple(map(plan.old.index, change.before)) for change in plan.changes]
    after = [tuple(map(plan.new.index, change.after)) for change in plan.changes]
    replicas_before, columns["owners_before"] = row_column(before)
    replicas_after, columns["owners_after"] = row_column(after)
    columns["widths_before"] = wide_column(plan.widths_before[node_id] for node_id in plan.old.ids)
    columns["widths_after"] = wide_column(plan.widths_after[node_id] for node_id in plan.new.ids)
    return {
        "before": [plan.before.number, plan.before.digest],
        "after": [plan.after.number, plan.after.digest],
        "hasher": plan.hasher,
        "slots": plan.slots or 0,
        "span": f"{plan.span:x}",
        "changes": len(plan.changes),
        "replicas_before": replicas_before,
        "replicas_after": replicas_after,
        "old": _topology_members(plan.old, "old_", columns),
        "new": _topology_members(plan.new, "new_", columns),
    }


def _topology(body: Json, columns: SavedColumns, cluster: str) -> Topology:
    return topology_of(body, "", columns, cluster)


def topology_of(body: Json, prefix: str, columns: SavedColumns, cluster: str) -> Topology:
    """Return the topology that `body` and the columns describe; the names of its columns begin with `prefix`."""
    number, ids, listed = members(body, "number", "ids", "zones")
    named, zones = names_in(ids), tuple(map(names_in, items(listed)))
    places = tuple(numbers_of(columns.take(f"{prefix}zones"), 4, len(named)))
    weights = tuple(numbers_of(columns.take(f"{prefix}weights"), 8, len(named)))
    if places and max(places) >= len(zones):
        refuse(max(places), "the index of a zone")
    known = tuple(map(zones.__getitem__, places))
    return Topology(nodes_of(named, known, weights), cluster=cluster, number=integer(number))


def _table(body: Json, columns: SavedColumns, cluster: str) -> Table:
    hasher, slots, replicas, inner = members(body, *TABLE_MEMBERS)
    topology = topology_of(inner, "", columns, cluster)
    starts = positions_of(columns, "starts")
    rows = rows_of(columns.take("owners"), integer(replicas), len(starts), len(topology))
    return Table(topology=topology, hasher=text(hasher), starts=starts, rows=rows, slots=integer(slots) or None)


def _assignment(body: Json, columns: SavedColumns, cluster: str) -> Assignment:
    form = members_of_assignment(body)
    return assignment_of(form, topology_of(form["topology"], "", columns, cluster), columns)


def _plan(body: Json, columns: SavedColumns, cluster: str) -> Plan:
    names = ("before", "after", "hasher", "slots", "span", "changes", "replicas_before", "replicas_after", "old", "new")
    before, after, hasher, slots, span, count, replicas_before, replicas_after, *sides = members(body, *names)
    old = topology_of(sides[0], "old_", columns, cluster)
    new = topology_of(sides[1], "new_", columns, cluster)
    # All checks come before the changes are made, because the changes take most memory.
    unchanged = Plan(
        before=epoch(before),
        after=epoch(after),
        old=old,
        new=new,
        hasher=text(hasher),
        exact=True,
        changes=(),
        span=hexadecimal(span),
        widths_before=_widths(columns, "widths_before", old),
        widths_after=_widths(columns, "widths_after", new),
        slots=integer(slots) or None,
    )
    starts, ends = positions_of(columns, "starts", integer(count)), ends_of(columns, "ends", integer(count))
    _check_order(starts, ends)
    was = _owners(columns.take("owners_before"), integer(replicas_before), integer(count), old)
    now = _owners(columns.take("owners_after"), integer(replicas_after), integer(count), new)
    return replace(unchanged, changes=tuple(map(Change, map(KeyRange, starts, ends), was, now)))


def _check_order(starts: tuple[Position, ...], ends: tuple[Position | None, ...]) -> None:
    for before, start, end in zip((None, *ends), starts, ends, strict=False):
        if before is not None and is_before(start, before):
            refuse(position_text(start), f"a start at or after the end of the previous range, {position_text(before)}")
        if end is not None and not is_before(start, end):
            refuse(position_text(end), f"an end after the start of its range, {position_text(start)}")


READERS: dict[type, Callable[[Json, SavedColumns, str], Topology | Table | Assignment | Plan]] = {
    Topology: _topology,
    Table: _table,
    Assignment: _assignment,
    Plan: _plan,
}


def _owners(column: bytes, replicas: int, count: int, topology: Topology) -> tuple[tuple[str, ...], ...]:
    rows: tuple[Row, ...] = rows_of(column, replicas, count, len(topology))
    names = {row: tuple(topology.ids[index] for index in row) for row in set(rows)}
    return tuple(names[row] for row in rows)


def _widths(columns: SavedColumns, name: str, topology: Topology) -> dict[str, int]:
    widths = wide_numbers_of(columns.take(name), len(topology))
    return dict(zip(topology.ids, widths, strict=True))
