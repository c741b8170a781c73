"""Forms: each value as plain lists, dicts, strings and integers, for the codec to write down.

A form never holds a float (weights are in millionths) and positions are 16 hexadecimal digits, so that a reader
in any language sees the same numbers. What a form must satisfy beyond its shape is checked by the value it becomes.
"""

from collections.abc import Callable
from typing import NoReturn, TypeVar, cast

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.epoch import Epoch
from apportion.model.plan import Change, Plan
from apportion.model.table import Table
from apportion.model.token import KeyRange, Position, position_of_text, position_text
from apportion.model.topology import Node, Topology

Form = object
Value = TypeVar("Value", Topology, Table, Assignment, Plan)

_HEX_DIGITS = set("0123456789abcdef")


def to_form(value: Topology | Table | Assignment | Plan) -> dict[str, Form]:
    """Return the form of a value."""
    match value:
        case Topology():
            nodes = [[node.id, list(node.zone), node.millionths] for node in value]
            return {"cluster": value.cluster, "number": value.number, "nodes": nodes}
        case Table():
            starts = [position_text(start) for start in value.starts]
            return _with_topology(value, hasher=value.hasher, slots=value.slots or 0, starts=starts, rows=value.rows)
        case Assignment():
            return _with_topology(value, rows=value.rows)
        case Plan():
            return _plan_form(value)


def from_form(form: Form, kind: type[Value]) -> Value:
    """Return the value of a form; raise `BadSnapshot` when its shape or what it says is wrong."""
    try:
        value = _READERS[kind](form)
    except BadSnapshot:
        raise
    except InvalidInput as error:
        refusal = BadSnapshot("snapshot body", None, "a valid one", error.hint)
        refusal.problem = f"in the saved {kind.__name__.lower()}, {error.problem}"
        raise refusal from error
    return cast(Value, value)


def _with_topology(value: Table | Assignment, **members: Form) -> dict[str, Form]:
    return {"topology": to_form(value.topology), **members}


def _plan_form(plan: Plan) -> dict[str, Form]:
    if not plan.exact:
        raise InvalidInput(
            "plan", "a plan counted over keys", "an exact plan", "Plan without keys=, between two tables."
        )
    changes = [
        [position_text(change.item.start), position_text(change.item.end), change.before, change.after]
        for change in plan.changes
        if isinstance(change.item, KeyRange)
    ]
    return {
        "before": [plan.before.number, plan.before.digest],
        "after": [plan.after.number, plan.after.digest],
        "old": to_form(plan.old),
        "new": to_form(plan.new),
        "hasher": plan.hasher,
        "slots": plan.slots or 0,
        "span": f"{plan.span:x}",
        "changes": changes,
        "widths_before": {node_id: f"{width:x}" for node_id, width in plan.widths_before.items()},
        "widths_after": {node_id: f"{width:x}" for node_id, width in plan.widths_after.items()},
    }


def _read_topology(form: Form) -> Topology:
    cluster, number, nodes = _members(form, "cluster", "number", "nodes")
    return Topology(map(_read_node, _list(nodes)), cluster=_str(cluster), number=_int(number))


def _read_node(form: Form) -> Node:
    node_id, zone, millionths = _items(form, 3)
    return Node(_str(node_id), zone=tuple(map(_str, _list(zone))), weight=_int(millionths) / 1_000_000)


def _read_table(form: Form) -> Table:
    topology, hasher, slots, starts, rows = _members(form, "topology", "hasher", "slots", "starts", "rows")
    return Table(
        topology=_read_topology(topology),
        hasher=_str(hasher),
        slots=_int(slots) or None,
        starts=tuple(_position(start) for start in _list(starts)),
        rows=_rows(rows),
    )


def _read_assignment(form: Form) -> Assignment:
    topology, rows = _members(form, "topology", "rows")
    return Assignment(topology=_read_topology(topology), rows=_rows(rows))


def _read_plan(form: Form) -> Plan:
    names = ("before", "after", "old", "new", "hasher", "slots", "span", "changes", "widths_before", "widths_after")
    before, after, old, new, hasher, slots, span, changes, widths_before, widths_after = _members(form, *names)
    return Plan(
        before=_epoch(before),
        after=_epoch(after),
        old=_read_topology(old),
        new=_read_topology(new),
        hasher=_str(hasher),
        exact=True,
        changes=tuple(map(_change, _list(changes))),
        span=_hex(span),
        widths_before={node_id: _hex(width) for node_id, width in _dict(widths_before).items()},
        widths_after={node_id: _hex(width) for node_id, width in _dict(widths_after).items()},
        slots=_int(slots) or None,
    )


_READERS: dict[type, Callable[[Form], Topology | Table | Assignment | Plan]] = {
    Topology: _read_topology,
    Table: _read_table,
    Assignment: _read_assignment,
    Plan: _read_plan,
}


def _change(form: Form) -> Change:
    start, end, before, after = _items(form, 4)
    item = KeyRange(_position(start), position_of_text(_str(end)))
    return Change(item, tuple(map(_str, _list(before))), tuple(map(_str, _list(after))))


def _epoch(form: Form) -> Epoch:
    number, digest = _items(form, 2)
    return Epoch(number=_int(number), digest=_str(digest))


def _rows(form: Form) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(_int, _list(row))) for row in _list(form))


def _position(form: Form) -> Position:
    position = position_of_text(_str(form))
    return _refuse(form, "a position") if position is None else position


def _hex(form: Form) -> int:
    text = _str(form)
    if not 0 < len(text) <= 32 or not set(text) <= _HEX_DIGITS:
        raise BadSnapshot("snapshot number", text, "1 .. 32 hexadecimal digits", "Take a fresh copy.")
    return int(text, 16)


def _str(form: Form) -> str:
    return form if isinstance(form, str) else _refuse(form, "a string")


def _int(form: Form) -> int:
    fits = isinstance(form, int) and not isinstance(form, bool) and form.bit_length() <= 64
    return form if isinstance(form, int) and fits else _refuse(form, "an integer of at most 64 bits")


def _list(form: Form) -> list[Form]:
    return form if isinstance(form, list) else _refuse(form, "a list")


def _dict(form: Form) -> dict[str, Form]:
    return form if isinstance(form, dict) else _refuse(form, "an object")


def _items(form: Form, count: int) -> list[Form]:
    items = _list(form)
    return items if len(items) == count else _refuse(len(items), f"a list of {count}")


def _members(form: Form, *names: str) -> list[Form]:
    members = _dict(form)
    if set(members) != set(names):
        _refuse(", ".join(members), f"the members {', '.join(names)}")
    return [members[name] for name in names]


def _refuse(form: Form, expected: str) -> NoReturn:
    raise BadSnapshot("snapshot member", form, expected, "Take a fresh copy.")
