"""Composite: hash of the entity, then time. Each entity lives on a few nodes, and its periods rotate over them.

For data with an owner and a time, such as readings of a device or events of an account. The newest data of an entity
is on one node and its history on `width` nodes. A long scan is shared among these nodes, and no entity is on more.

Promises: an entity touches at most `width` nodes. If the base has minimal disruption, a node joins or leaves the nodes
of an entity only if the topology change requires it. Any `width` periods in a row take each of the nodes once.
Refuses: more width than the base can rank; shares by weight (weight only decides which nodes an entity has); minimal
disruption of single periods. No rotation without memory can promise the last, as docs/algorithms/composite.md shows.

Format: `docs/algorithms/composite.md`.
Source: composite partitioning of SQL databases, hash then range.
"""

import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Self

from apportion.errors import BadRange, CannotPlace, InvalidInput, NotEnoughNodes
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.table import Owners
from apportion.model.topology import Topology
from apportion.placement.api import Placement, PlacementSpec, check_placement
from apportion.placement.explanation import Explanation
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.key_by_key import KeyByKey, led_by
from apportion.placement.spread import Spread

MAX_PERIODS = 2**20
"""The most stretches that a scan may have."""

MAX_SEPARATOR_BYTES = 16
_SECONDS = re.compile(rb"-?[0-9]{1,19}")
_SIGNS = frozenset("-0123456789")
_OPTIONS = ("width", "period_seconds", "separator", "spread")


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Composite(KeyByKey):
    """Entities over the first `width` nodes of their preference lists, one node for each of their periods in turn.

    Time is in seconds from any moment, the same moment for all. `spread` applies to the lists: by default, no two
    nodes of an entity share a zone. Build: one lookup. Lookup: one preference list of the base.

    >>> from apportion import Ring
    >>> composite = Composite(Ring(["a", "b", "c"]), width=2, period_seconds=60)
    >>> composite.nodes("meter-7"), composite.route_at("meter-7", 59), composite.route_at("meter-7", 60)
    (('c', 'b'), 'c', 'b')
    >>> composite.route("meter-7|125"), composite.scan("meter-7", 50, 125)
    ('c', [(50, 60, 'c'), (60, 120, 'b'), (120, 125, 'c')])
    """

    base: Placement
    width: int
    period_seconds: int
    separator: str
    spread: Spread
    _mark: bytes

    def __init__(
        self,
        base: Placement,
        *,
        width: int = 4,
        period_seconds: int = 86_400,
        separator: str = "|",
        spread: Spread = "strict",
    ) -> None:
        check_placement("base", base)
        _check_positive("width", width, "The width is the number of nodes per entity.")
        _check_positive(
            "period_seconds",
            period_seconds,
            "The period is the time for which an entity writes to one node; 86400 is a day.",
        )
        values = {
            "topology": base.topology,
            "base": base,
            "width": width,
            "period_seconds": period_seconds,
            "separator": separator,
            "spread": spread,
            "_mark": _mark_of(separator),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        try:
            self.nodes(b"")
        except NotEnoughNodes as error:
            hint = "Lower width, add nodes or zones, pass spread='best-effort', or take a base that ranks its nodes."
            raise CannotPlace(f"an entity cannot rotate over {self.width} nodes: {error.problem}", hint) from error

    def nodes(self, entity: Key) -> Owners:
        """Return the `width` nodes of an entity, in the order in which its periods take them."""
        return self.base.preference(entity, self.width, spread=self.spread)

    def route_at(self, entity: Key, seconds: int) -> str:
        """Return the id of the node that handles an entity at a time."""
        return self.nodes(entity)[self._turn(_checked_seconds("seconds", seconds))]

    def scan(self, entity: Key, start_seconds: int, end_seconds: int) -> list[tuple[int, int, str]]:
        """Return the stretches to read for an entity in order of time: (start, end, node id), without gap or overlap.

        The time runs from `start_seconds` up to, not including, `end_seconds`. O(periods), of which there are at most
        MAX_PERIODS. Raises `BadRange`.
        """
        start, end = _checked_seconds("start_seconds", start_seconds), _checked_seconds("end_seconds", end_seconds)
        if start >= end:
            raise BadRange("end_seconds", end, f"more than start_seconds {start}", "Swap the two times.")
        nodes = self.nodes(entity)
        if self.width == 1:
            return [(start, end, nodes[0])]
        first, last = start // self.period_seconds, (end - 1) // self.period_seconds
        if last - first >= MAX_PERIODS:
            expected = f"at most MAX_PERIODS = {MAX_PERIODS}"
            raise BadRange("periods of the scan", last - first + 1, expected, "Scan several shorter times.")
        cuts = (start, *(period * self.period_seconds for period in range(first + 1, last + 1)), end)
        return [(left, right, nodes[self._turn(left)]) for left, right in pairwise(cuts)]

    def key(self, entity: Key, seconds: int) -> bytes:
        """Return the key of an entity at a time, as `route` reads it: `entity|seconds`.

        >>> from apportion import Ring
        >>> Composite(Ring(["a", "b", "c", "d"])).key("meter-7", 125)
        b'meter-7|125'
        """
        key = key_bytes(entity) + self._mark + str(_checked_seconds("seconds", seconds)).encode()
        return key_bytes(key)

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key of the form `entity|seconds`."""
        return self.route_at(*self._split(key))

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return `count` nodes for a key: its owner, the nodes of the next periods, then the base's list."""
        entity, seconds = self._split(key)
        turns = self._rotated(entity, seconds)
        return led_by(turns, self.base, entity, count, spread_level=spread_level, spread=spread)

    def explain(self, key: Key) -> Explanation:
        """Return the nodes of a key's entity, and the node of the period that holds the key's time."""
        entity, seconds = self._split(key)
        owner, *others = self._rotated(entity, seconds)
        nodes = ", ".join(self.nodes(entity))
        turn = f"period {seconds // self.period_seconds} falls to number {self._turn(seconds)} of {nodes}"
        explained = self.base.explain(entity)
        return replace(
            explained,
            key=key,
            placement="composite",
            range=None,
            owner=owner,
            why=f"{turn}; for the entity, {explained.why}",
            next=tuple(others[:2]),
            if_owner_left=self._heir(key, owner),
        )

    def on(self, topology: Topology) -> Self:
        """Return the same rotation over the base on another topology."""
        return self._make()(self.base.on(topology))

    def _make(self) -> "partial[Self]":
        return partial(type(self), **{name: getattr(self, name) for name in _OPTIONS})

    def _turn(self, seconds: int) -> int:
        return seconds // self.period_seconds % self.width

    def _rotated(self, entity: bytes, seconds: int) -> Owners:
        nodes, turn = self.nodes(entity), self._turn(seconds)
        return nodes[turn:] + nodes[:turn]

    def _heir(self, key: Key, owner: str) -> str | None:
        try:
            return self.on(self.topology.without(owner)).route(key)
        except CannotPlace:
            return None

    def _split(self, key: Key) -> tuple[bytes, int]:
        entity, mark, seconds = key_bytes(key).rpartition(self._mark)
        if isinstance(key, (str, bytes)) and mark and _SECONDS.fullmatch(seconds) and _fits(int(seconds)):
            return entity, int(seconds)
        form = f"the form entity{self.separator}seconds, the seconds a decimal integer of 64 bits"
        raise InvalidInput("key", key, form, "Write it by key(entity, seconds), or ask route_at(entity, seconds).")

    def __reduce__(self) -> "tuple[partial[Self], tuple[Placement]]":
        return self._make(), (self.base,)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in _OPTIONS)
        return f"{type(self).__name__}({self.base!r}, {options})"


def _fits(seconds: int) -> bool:
    return -(2**63) <= seconds < 2**63


def _checked_seconds(name: str, seconds: int) -> int:
    if type(seconds) is not int or not _fits(seconds):
        raise InvalidInput(
            name, seconds, "an int of 64 bits, signed", "Round a time down: math.floor(moment.timestamp())."
        )
    return seconds


def _check_positive(name: str, value: int, hint: str) -> None:
    if type(value) is not int or not 0 < value < 2**63:
        raise InvalidInput(name, value, "an int of at least 1, below 2**63", hint)


def _mark_of(separator: str) -> bytes:
    """Return the bytes of a separator; refuse one that can be read as a part of the number after it."""
    if not isinstance(separator, str) or not separator or _SIGNS.intersection(separator):
        expected = "a str of one character or more, without digits and without -"
        raise InvalidInput("separator", separator, expected, 'Use "|".')
    mark = key_bytes(separator)
    if len(mark) > MAX_SEPARATOR_BYTES:
        raise InvalidInput("separator", separator, f"at most {MAX_SEPARATOR_BYTES} bytes", 'Use "|".')
    return mark


SPEC = PlacementSpec(
    name="composite",
    build=Composite,
    source="composite partitioning",
    ranked=True,
    lookup="O(nodes)",  # a preference list of the base, which looks at the zones of all nodes
    takes="explicit",
)
