"""Lists of values: each node is given the values it handles, by name. Explicit list partitioning.

Promises: a value is in one list, or the lists are refused. A key moves only when its value is put into another list.
An unlisted key goes to `default`; without a default, it is refused.
Refuses: weights, second owners, and the choice of owners; a topology in which a node with a list is missing or drains.

Format: `docs/algorithms/lists.md`.
Source: list partitioning of SQL databases, as in PostgreSQL's PARTITION BY LIST.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from apportion.errors import CannotPlace, InvalidInput, shown
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.topology import Topology
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.key_by_key import AS_THEY_ARE, KeyByKey, check_owns

MAX_VALUES = 2**20
_MOVE_FIRST = "Put its values into the list of a node that stays, then remove or drain it."


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Lists(KeyByKey):
    """The values of each node; `default` handles the values in no list.

    `values` are pairs of a node's id and the bytes of its values, both sorted; empty lists are dropped. Build:
    O(values log values). Lookup: O(1). Memory: about 150 bytes per value.

    >>> lists = Lists(["db-eu", "db-us"], values={"db-eu": ["de", "fr"], "db-us": ["us"]})
    >>> lists.route("fr"), lists.route(b"us")
    ('db-eu', 'db-us')
    >>> Lists(lists.topology, values={"db-eu": ["de"]}, default="db-us").route("jp")
    'db-us'
    """

    values: tuple[tuple[str, tuple[bytes, ...]], ...]
    default: str | None
    _owners: dict[bytes, str] = field(compare=False)

    def __init__(self, nodes: Nodes, *, values: Mapping[str, Iterable[Key]], default: str | None = None) -> None:
        topology = topology_of(nodes)
        if not isinstance(values, Mapping):
            hint = 'Write values={"db-eu": ["de", "fr"], "db-us": ["us"]}.'
            raise InvalidInput("values", values, "a mapping from node ids to lists of values", hint)
        for node_id in values:
            check_owns(node_id, topology, "a list", _MOVE_FIRST)
        if default is not None:
            check_owns(default, topology, "the default", "Pass a node with a weight above 0.")
        self._fill(topology, _owners_of(values), default)

    def _fill(self, topology: Topology, owners: dict[bytes, str], default: str | None) -> None:
        lists: dict[str, list[bytes]] = {}
        for value in sorted(owners):
            lists.setdefault(owners[value], []).append(value)
        object.__setattr__(self, "topology", topology)
        object.__setattr__(self, "values", tuple((node_id, tuple(lists[node_id])) for node_id in sorted(lists)))
        object.__setattr__(self, "default", default)
        object.__setattr__(self, "_owners", owners)

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key; `CannotPlace` if no list has it and there is no default."""
        owner = self._owners.get(key_bytes(key), self.default)
        if owner is None:
            hint = "Add it to the list of a node, or pass default=NODE for values in no list."
            raise CannotPlace(f"{shown(key)} is in no list, and there is no default.", hint)
        return owner

    def explain(self, key: Key) -> Explanation:
        """Return the list that contains a key."""
        owner = self.route(key)
        where = f"in the list of {owner}" if key_bytes(key) in self._owners else f"in no list; {owner} is the default"
        return Explanation(
            key=key,
            placement="lists",
            hasher=AS_THEY_ARE,
            owner=owner,
            why=f"the value is {where}; if the node left, the author of the lists would decide",
        )

    def on(self, topology: Topology) -> Self:
        """Return the same lists on another topology.

        Raises `CannotPlace` if a node with a list, or the default, left or drains.
        """
        owning = {node.id for node in topology if node.weight > 0}
        for node_id, values in self.values:
            if node_id not in owning:
                more = f" and {len(values) - 1} more" if len(values) > 1 else ""
                raise CannotPlace(f"{shown(values[0])}{more} would have no owner without {node_id!r}.", _MOVE_FIRST)
        if self.default is not None and self.default not in owning:
            hint = "Build the lists with another default, then remove or drain it."
            raise CannotPlace(f"values in no list would have no owner without {self.default!r}, the default.", hint)
        moved = object.__new__(type(self))
        moved._fill(topology, self._owners, self.default)
        return moved

    def __reduce__(self) -> "tuple[partial[Lists], tuple[Topology]]":
        return partial(type(self), values=dict(self.values), default=self.default), (self.topology,)

    def __repr__(self) -> str:
        values = f"{len(self._owners)} values over {self.topology!r}"
        return f"{type(self).__name__}({values}, default={self.default!r}, {AS_THEY_ARE})"


def _owners_of(values: Mapping[str, Iterable[Key]]) -> dict[bytes, str]:
    """Return the node of each value, by the value's bytes; `InvalidInput` names a value that is given twice."""
    owners: dict[bytes, str] = {}
    for node_id, value in _pairs(values):
        data = key_bytes(value)
        if data in owners:
            where = f"that of {owners[data]!r}" + (" twice" if owners[data] == node_id else f" and that of {node_id!r}")
            raise InvalidInput("value", value, f"once, in one list; it is in {where}", "List it once, at its owner.")
        if len(owners) == MAX_VALUES:
            hint = "Group the values, or place them by hash: Slots."
            raise InvalidInput("values", f"{MAX_VALUES} and more", f"at most MAX_VALUES = {MAX_VALUES}", hint)
        owners[data] = node_id
    return owners


def _pairs(values: Mapping[str, Iterable[Key]]) -> Iterator[tuple[str, Key]]:
    for node_id, listed in values.items():
        if isinstance(listed, (str, bytes)) or not isinstance(listed, Iterable):
            hint = "Put a single value in a list: [value]."
            raise InvalidInput(f"values of {node_id!r}", listed, "a list of values", hint)
        yield from ((node_id, value) for value in listed)


SPEC = PlacementSpec(
    name="lists",
    build=Lists,
    source="PARTITION BY LIST",
    minimal_disruption=True,
    lookup="O(1)",
    takes="explicit",
)
