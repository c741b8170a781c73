"""Placements from options, and the next placement after a change: where `placement` and `balance` are put together.

`Slots` and its kinds need an assignment, which the balancer makes. A placement that is built from an explicit list is
refused, for nodes alone do not give one; and so is a hash function for a layout that prescribes its own.
"""

from apportion.balance.slots import slots as balance_slots
from apportion.errors import InvalidInput
from apportion.model.table import Table
from apportion.model.topology import Topology
from apportion.placement import catalog, redis_slots
from apportion.placement.api import Placement, PlacementSpec
from apportion.placement.hashers import DEFAULT, Hasher, resolve
from apportion.placement.ring import Ring
from apportion.placement.slots import Slots

DEFAULT_VNODES = 150
PRESCRIBED_SLOTS = {"redis_slots": redis_slots.SLOTS}


def compose(
    name: str,
    topology: Topology,
    *,
    hasher: str | Hasher = DEFAULT,
    vnodes: int | None = None,
    slots: int | None = None,
) -> Placement:
    """Return the placement of a name on a topology. `vnodes` is for `ring` and `slots` for `slots`, for these alone.

    The default hasher stands for none asked for; any other is refused by a layout that prescribes its own.
    """
    spec = catalog.get(name)
    for option, value, taker in (("--vnodes", vnodes, "ring"), ("--slots", slots, "slots")):
        if value is not None and name != taker:
            raise InvalidInput(
                option, value, f"nothing: {name} does not have it", f"Leave it out, or use --placement {taker}."
            )
    if spec.takes == "explicit":
        hint = f"{name.capitalize()} is built from a list of who owns what: build it in Python, or pick another."
        raise InvalidInput("--placement", name, "one that is made of nodes alone", hint)
    options = _hashing(spec, hasher)
    if spec.takes == "assignment":
        return spec(balance_slots(topology, count=PRESCRIBED_SLOTS.get(name, slots)), **options)
    return spec(topology, **options, **({} if vnodes is None else {"vnodes": vnodes}))


def _hashing(spec: PlacementSpec, hasher: str | Hasher) -> dict[str, str | Hasher]:
    if spec.takes_hasher:
        return {"hasher": hasher}
    if resolve(hasher) != resolve(DEFAULT):
        expected = f"nothing: {spec.name} prescribes its own hash function"
        raise InvalidInput("--hasher", resolve(hasher).label, expected, "Leave it out, or pick another --placement.")
    return {}


def compose_from(table: Table, hasher: Hasher, *, vnodes: int | None = None) -> Placement:
    """Return the placement that a saved table was made by: its slots, or the ring with these `vnodes`."""
    if max(map(len, table.rows)) > 1:
        hint = "Export it with one owner a range; compare tables of replicas by `table diff`."
        raise InvalidInput("--table", repr(table), "one owner a range, to plan or explain", hint)
    if table.slots is not None:
        if vnodes is not None:
            raise InvalidInput("--vnodes", vnodes, "nothing: the table is made of slots", "Leave it out.")
        return Slots.of_table(table, hasher=hasher)
    tokens = DEFAULT_VNODES if vnodes is None else vnodes
    ring = Ring(table.topology, vnodes=tokens, hasher=hasher)
    if ring.table() != table:
        hint = "Pass the --vnodes it was made with. A table made elsewhere can be routed by and compared only."
        raise InvalidInput("--table", repr(table), f"slots, or a ring of {tokens} vnodes", hint)
    return ring


def succeed(placement: Placement, topology: Topology) -> Placement:
    """Return the placement of the same kind on the next topology; slots are balanced anew with the fewest moves."""
    if isinstance(placement, Slots):
        return type(placement)(balance_slots(topology, previous=placement.assignment), hasher=placement.hasher)
    return placement.on(topology)
