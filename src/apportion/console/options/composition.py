"""Composition: placements from options, and from saved tables; here `placement` and `balance` meet.

`Slots` and its subclasses need an assignment, which the balancer makes. A placement that is built from an explicit
list of owners is refused, because nodes alone do not give such a list. A hash function is refused for a placement
that prescribes its own.
"""

from collections.abc import Iterator

from apportion.balance.slots import slots as balance_slots
from apportion.errors import CannotPlace, InvalidInput
from apportion.model.table import Table
from apportion.model.topology import Topology
from apportion.placement import catalog, hashers
from apportion.placement.api import Placement, PlacementSpec
from apportion.placement.hashers import Hasher, resolve
from apportion.placement.layouts import redis_slots
from apportion.placement.layouts.redis_slots import RedisSlots
from apportion.placement.ring import Ring
from apportion.placement.slots import Slots

DEFAULT_VNODES = 150
PRESCRIBED_SLOTS = {"redis_slots": redis_slots.SLOTS}
RING_BITS = 64

_LAYOUTS: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    "md5-first-word": (("ketama", {"layout": "libmemcached"}), ("ketama", {"layout": "libketama"})),
    "crc32": (("nginx", {}),),
    "xxh64": (("envoy", {}),),
}
"""The layouts that may have made a table, by the hasher of the table."""


def compose(
    name: str,
    topology: Topology,
    *,
    hasher: str | Hasher | None = None,
    vnodes: int | None = None,
    slots: int | None = None,
) -> Placement:
    """Return the placement with this name on a topology. Only `ring` takes `vnodes`, and only `slots` takes `slots`.

    `hasher` is None if the caller named none. A placement that prescribes its own hash function refuses every other
    value.
    """
    spec = catalog.get(name)
    for option, value, taker in (("--vnodes", vnodes, "ring"), ("--slots", slots, "slots")):
        if value is not None and name != taker:
            hint = f"Leave it out, or use --placement {taker}."
            raise InvalidInput(option, value, f"no value: {name} has no such option", hint)
    if spec.takes == "explicit":
        hint = f"{name.capitalize()} is built from a list of owners. Pick another --placement."
        raise InvalidInput("--placement", name, "a placement that needs only nodes", hint)
    options = _hashing(spec, hasher)
    if spec.takes == "assignment":
        return spec(balance_slots(topology, count=PRESCRIBED_SLOTS.get(name, slots)), **options)
    return spec(topology, **options, **({} if vnodes is None else {"vnodes": vnodes}))


def _hashing(spec: PlacementSpec, hasher: str | Hasher | None) -> dict[str, str | Hasher]:
    if hasher is None:
        return {}
    if not spec.takes_hasher:
        expected = f"no value: {spec.name} prescribes its own hash function"
        raise InvalidInput("--hasher", resolve(hasher).label, expected, "Leave it out, or pick another --placement.")
    return {"hasher": hasher}


def compose_from(table: Table, hasher: Hasher, *, vnodes: int | None = None) -> Placement:
    """Return the placement that made a saved table: slots, the layout of its hasher, or a ring with `vnodes`."""
    if max(map(len, table.rows)) > 1:
        hint = "Export it with one owner per range; compare tables of replicas by `table diff`."
        raise InvalidInput("--table", repr(table), "one owner per range, to plan", hint)
    is_foreign = not _is_named(table.hasher)
    if vnodes is not None and (is_foreign or table.slots is not None):
        kind = "slots" if table.slots is not None else f"{table.hasher} positions, and only a ring takes vnodes"
        raise InvalidInput("--vnodes", vnodes, f"no value: the table is made of {kind}", "Leave it out.")
    placement = recomposed(table, hasher, vnodes=vnodes)
    if placement is None and is_foreign:
        hint = "Import the system's output after the change too, and compare: apportion table diff OLD NEW."
        for name, _ in _LAYOUTS.get(table.hasher, ()):
            hint = f"Plan on its nodes: apportion plan --placement {name} --topology FILE."
        raise InvalidInput(
            "--table", repr(table), "a table of slots, or of a layout that needs only nodes, to plan", hint
        )
    if placement is None:
        tokens = DEFAULT_VNODES if vnodes is None else vnodes
        hint = "Pass the --vnodes of the table. A table made elsewhere works with route, explain and table diff only."
        raise InvalidInput("--table", repr(table), f"slots, or a ring of {tokens} vnodes", hint)
    return placement


def recomposed(table: Table, hasher: Hasher, *, vnodes: int | None = None) -> Placement | None:
    """Return the placement with exactly this table; None if no placement of its nodes makes the table."""
    if max(map(len, table.rows)) > 1:
        return None
    if table.slots is not None:
        return (RedisSlots if hasher == redis_slots.HASHER else Slots).of_table(table, hasher=hasher)
    return next((placement for placement in _laid(table, hasher, vnodes) if placement.table() == table), None)


def _laid(table: Table, hasher: Hasher, vnodes: int | None) -> Iterator[Placement]:
    """Yield placements of the table's nodes that use its hash function: a ring, and layouts that prescribe it."""
    if _is_named(table.hasher) and hasher.bits == RING_BITS:
        yield Ring(table.topology, vnodes=DEFAULT_VNODES if vnodes is None else vnodes, hasher=hasher)
    for name, options in _LAYOUTS.get(table.hasher, ()):
        try:
            yield catalog.get(name)(table.topology, **options)
        except (CannotPlace, InvalidInput):
            continue  # a layout that refuses these nodes did not make the table


def _is_named(label: str) -> bool:
    """Whether the label of a hasher names a hash function. Any other label belongs to a layout."""
    return label.partition(":")[0] in hashers.names()
