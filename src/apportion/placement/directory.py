"""Directory: a few keys are placed by name, all others by another placement.

Promises: a key with an exception is at the node of its exception, and that node is first in its preference lists.
Every other key is where the base puts it, and moves when the base moves it.
Refuses: a topology in which the node of an exception is missing or drains. Exceptions are never dropped silently.

Format: `docs/algorithms/directory.md`.
Source: lookup tables before a hash, as the lookup vindexes of Vitess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from apportion.errors import CannotPlace, InvalidInput, shown
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.topology import Topology
from apportion.placement.api import Placement, PlacementSpec, check_placement
from apportion.placement.explanation import Explanation
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.key_by_key import AS_THEY_ARE, KeyByKey, check_owns, led_by
from apportion.placement.spread import Spread

MAX_EXCEPTIONS = 2**20
_GIVE_AWAY = "Call with_exception(key, node_id) with a node that stays, or drop it with without_exception(key)."


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Directory(KeyByKey):
    """Exceptions over a base. `exceptions` are pairs of a key's bytes and a node's id, sorted by key.

    Build, and each change: O(exceptions log exceptions). Lookup: O(1) plus the lookup of the base.

    >>> from apportion import Ring
    >>> directory = Directory(Ring(["a", "b", "c"]), exceptions={"acme": "c"})
    >>> directory.base.route("acme"), directory.route("acme"), directory.preference("acme", 3)
    ('a', 'c', ('c', 'a', 'b'))
    >>> directory.without_exception("acme").route("acme")
    'a'
    """

    base: Placement
    exceptions: tuple[tuple[bytes, str], ...]
    _nodes: dict[bytes, str] = field(compare=False)

    def __init__(self, base: Placement, *, exceptions: Mapping[Key, str]) -> None:
        check_placement("base", base)
        self._fill(base, _nodes_of(exceptions, base.topology))

    def _fill(self, base: Placement, nodes: dict[bytes, str]) -> None:
        object.__setattr__(self, "topology", base.topology)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "exceptions", tuple(sorted(nodes.items())))
        object.__setattr__(self, "_nodes", nodes)

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self._nodes.get(key_bytes(key)) or self.base.route(key)

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return `count` nodes for a key: the exception if there is one, then the base's list, each zone once."""
        node_id = self._nodes.get(key_bytes(key))
        if node_id is None:
            return self.base.preference(key, count, spread_level=spread_level, spread=spread)
        return led_by((node_id,), self.base, key, count, spread_level=spread_level, spread=spread)

    def explain(self, key: Key) -> Explanation:
        """Return the exception of a key with the answer of the base, or only the answer of the base."""
        node_id = self._nodes.get(key_bytes(key))
        if node_id is None:
            return self._explain_base(key)
        return Explanation(
            key=key,
            placement="directory",
            hasher=AS_THEY_ARE,
            owner=node_id,
            why=f"an exception gives the key to {node_id} ({self._base_says(key)}); "
            f"before {node_id} can leave, give the key away",
            next=self._followers(key),
        )

    def _explain_base(self, key: Key) -> Explanation:
        explained = self.base.explain(key)
        # If its owner has exceptions, `on` refuses a topology without this owner.
        has_exceptions = explained.owner in self._nodes.values()
        note = f"; before {explained.owner} can leave, give its exceptions away" if has_exceptions else ""
        return replace(
            explained,
            placement="directory",
            why=f"no exception; {explained.why}{note}",
            if_owner_left=None if has_exceptions else explained.if_owner_left,
        )

    def _base_says(self, key: Key) -> str:
        try:
            return f"the base would take {self.base.route(key)}"
        except (CannotPlace, InvalidInput):  # the key is valid; the base may want another form
            return "the base has no node for it"

    def _followers(self, key: Key) -> tuple[str, ...]:
        """Return up to two nodes after the exception, as far as the base names any."""
        owning = sum(node.weight > 0 for node in self.topology)
        for count in range(min(3, owning), 1, -1):
            try:
                return self.preference(key, count, spread="best-effort")[1:]
            except (CannotPlace, InvalidInput):
                continue
        return ()

    def on(self, topology: Topology) -> Self:
        """Return the same exceptions on another topology; `CannotPlace` if a node with an exception left or drains."""
        owning = {node.id for node in topology if node.weight > 0}
        for key, node_id in self.exceptions:
            if node_id not in owning:
                others = sum(node_id == each for each in self._nodes.values()) - 1
                more = f" and {others} more" if others else ""
                hint = _GIVE_AWAY
                raise CannotPlace(f"the exception {shown(key)}{more} would have no node without {node_id!r}.", hint)
        return self._over(self.base.on(topology), self._nodes)

    def with_exception(self, key: Key, node_id: str) -> Self:
        """Return the directory in which a key is at a node, wherever it was before. O(exceptions)."""
        check_owns(node_id, self.topology, f"the exception {shown(key)}", _GIVE_AWAY)
        nodes = {**self._nodes, key_bytes(key): node_id}
        _check_count(len(nodes))
        return self._over(self.base, nodes)

    def without_exception(self, key: Key) -> Self:
        """Return the directory in which a key is where the base puts it; `InvalidInput` if it has no exception."""
        data = key_bytes(key)
        if data not in self._nodes:
            hint = "The base places this key. The keys with an exception are in `exceptions`."
            raise InvalidInput("key", key, "one that has an exception", hint)
        return self._over(self.base, {other: node_id for other, node_id in self._nodes.items() if other != data})

    def _over(self, base: Placement, nodes: dict[bytes, str]) -> Self:
        directory = object.__new__(type(self))
        directory._fill(base, nodes)
        return directory

    def __reduce__(self) -> "tuple[partial[Directory], tuple[Placement]]":
        return partial(type(self), exceptions=dict(self.exceptions)), (self.base,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {len(self.exceptions)} exceptions)"


def _nodes_of(exceptions: Mapping[Key, str], topology: Topology) -> dict[bytes, str]:
    if not isinstance(exceptions, Mapping):
        hint = 'Write exceptions={"vip-tenant": "db-9"}.'
        raise InvalidInput("exceptions", exceptions, "a mapping from keys to node ids", hint)
    _check_count(len(exceptions))
    nodes: dict[bytes, str] = {}
    for key, node_id in exceptions.items():
        data = key_bytes(key)
        if data in nodes:
            hint = "Two spellings of a key are the same bytes: keep one."
            raise InvalidInput("exception", key, "each key once", hint)
        check_owns(node_id, topology, f"the exception {shown(key)}", _GIVE_AWAY)
        nodes[data] = node_id
    return nodes


def _check_count(exceptions: int) -> None:
    if exceptions > MAX_EXCEPTIONS:
        hint = "Group the keys, or place them by Lists or Slots."
        raise InvalidInput("exceptions", exceptions, f"at most MAX_EXCEPTIONS = {MAX_EXCEPTIONS}", hint)


SPEC = PlacementSpec(
    name="directory",
    build=Directory,
    source="Vitess",
    # A directory keeps the promises of its base. These are the promises over a ring.
    minimal_disruption=True,
    weighted=True,
    ranked=True,
    lookup="O(log tokens)",
    takes="explicit",
)
