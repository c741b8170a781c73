"""Bodies of format version 1: every number and every owner is an element of a JSON list.

This version is only read, never written. 0.1.0 wrote it before its release, and those files stay readable.
"""

from collections.abc import Callable

from apportion.model.assignment import Assignment
from apportion.model.codec.parsing import (
    Json,
    epoch,
    hexadecimal,
    integer,
    items,
    members,
    names_in,
    pairs,
    refuse,
    text,
)
from apportion.model.plan import Change, Plan
from apportion.model.table import Table
from apportion.model.token import KeyRange, Position, position_of_text
from apportion.model.topology import Node, Topology


def _topology(form: Json) -> Topology:
    cluster, number, nodes = members(form, "cluster", "number", "nodes")
    return Topology(map(_node, items(nodes)), cluster=text(cluster), number=integer(number))


def _node(form: Json) -> Node:
    node_id, zone, millionths = items(form, 3)
    return Node(text(node_id), zone=names_in(zone), weight=integer(millionths) / 1_000_000)


def _table(form: Json) -> Table:
    topology, hasher, slots, starts, rows = members(form, "topology", "hasher", "slots", "starts", "rows")
    return Table(
        topology=_topology(topology),
        hasher=text(hasher),
        slots=integer(slots) or None,
        starts=tuple(map(_position, items(starts))),
        rows=_rows(rows),
    )


def _assignment(form: Json) -> Assignment:
    topology, rows = members(form, "topology", "rows")
    return Assignment(topology=_topology(topology), rows=_rows(rows))


def _plan(form: Json) -> Plan:
    names = ("before", "after", "old", "new", "hasher", "slots", "span", "changes", "widths_before", "widths_after")
    before, after, old, new, hasher, slots, span, changes, widths_before, widths_after = members(form, *names)
    return Plan(
        before=epoch(before),
        after=epoch(after),
        old=_topology(old),
        new=_topology(new),
        hasher=text(hasher),
        exact=True,
        changes=tuple(map(_change, items(changes))),
        span=hexadecimal(span),
        widths_before={node_id: hexadecimal(width) for node_id, width in pairs(widths_before).items()},
        widths_after={node_id: hexadecimal(width) for node_id, width in pairs(widths_after).items()},
        slots=integer(slots) or None,
    )


READERS: dict[type, Callable[[Json], Topology | Table | Assignment | Plan]] = {
    Topology: _topology,
    Table: _table,
    Assignment: _assignment,
    Plan: _plan,
}


def _change(form: Json) -> Change:
    start, end, before, after = items(form, 4)
    return Change(KeyRange(_position(start), position_of_text(text(end))), names_in(before), names_in(after))


def _rows(form: Json) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(integer, items(row))) for row in items(form))


def _position(form: Json) -> Position:
    position = position_of_text(text(form))
    return refuse(form, "a position") if position is None else position
