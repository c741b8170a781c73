"""Assignment: the nodes that hold each partition of a fixed list.

If keys are hashed to a fixed number of slots, the slots are the partitions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

from apportion.errors import InvalidInput, UnknownOption
from apportion.errors.brief import brief
from apportion.model.certificate import Certificate
from apportion.model.epoch import Epoch, content_digest
from apportion.model.plan import Change, Move, moves_of
from apportion.model.rows import Row, Rows
from apportion.model.topology import MAX_ZONE_LEVELS, Topology, check_names

PreferenceList = tuple[str, ...]
"""Node ids that hold a partition, the leader first."""

Spread: TypeAlias = Literal["strict", "best-effort"]

MAX_PARTITIONS = 2**24
MAX_SIZE = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The request of the caller: the number of replicas, the zone level to spread over, and the kind of spread."""

    replicas: int
    spread_level: int | None = None
    spread: Spread = "strict"

    def __post_init__(self) -> None:
        if type(self.replicas) is not int or self.replicas < 1:
            raise InvalidInput("replicas", self.replicas, "an int of at least 1", "One replica is the owner alone.")
        level = self.spread_level
        if level is not None and (type(level) is not int or not 0 <= level < MAX_ZONE_LEVELS):
            expected = f"an int in 0 .. {MAX_ZONE_LEVELS - 1}, or None"
            raise InvalidInput("spread_level", level, expected, "0 is the outermost level of a zone.")
        if self.spread not in ("strict", "best-effort"):
            raise UnknownOption("spread", self.spread, ("strict", "best-effort"))


@brief
class PreferenceLists(Mapping[str, PreferenceList]):
    """The nodes of every partition by its id. Each access makes the list."""

    __slots__ = ("_names", "_places", "_rows", "_topology")

    def __init__(self, topology: Topology, rows: Rows, names: "tuple[str, ...] | None") -> None:
        self._topology, self._rows, self._names = topology, rows, names
        self._places: dict[str, int] = {}

    def __getitem__(self, partition: str) -> PreferenceList:
        place = self.place(partition)
        if place is None:
            raise KeyError(partition)
        return tuple(self._topology.ids[index] for index in self._rows[place])

    def place(self, partition: object) -> int | None:
        """Return the row number of a partition, None if no partition has that id. O(1)."""
        if not isinstance(partition, str):
            return None
        if self._names is not None:
            if not self._places:
                self._places.update({name: place for place, name in enumerate(self._names)})
            return self._places.get(partition)
        is_number = partition.isascii() and partition.isdigit() and len(partition) <= len(str(MAX_PARTITIONS))
        if not is_number or (partition[0] == "0" and partition != "0"):
            return None
        return int(partition) if int(partition) < len(self._rows) else None

    def __iter__(self) -> Iterator[str]:
        return iter(map(str, range(len(self._rows))) if self._names is None else self._names)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return repr(dict(self)) if len(self) <= 8 else f"<lists of {len(self)} partitions>"


# No `slots=True`: a cached property keeps its value in the object's own dictionary.
@brief
@dataclass(frozen=True, kw_only=True, repr=False)
class Assignment:
    """Row i holds the indexes (into `topology.nodes`) of the nodes that own partition i, the leader first.

    Partition i is `names[i]`; without names, the partitions are "0", "1", …. In every call that takes a partition,
    the int n means `str(n)`. `down` contains the ids of the nodes that are not up. `home` contains the rows for the
    time when all nodes are up; None means the same rows as `rows`. `sizes` contains the bytes of each partition. An
    assignment made by a balancer has its rule, and may have a certificate.

    >>> assignment = Assignment(topology=Topology(["a", "b"]), rows=((0,), (1,), (1,)))
    >>> assignment[2], assignment["0"], assignment.loads
    (('b',), ('a',), {'a': 1, 'b': 2})
    """

    topology: Topology
    rows: Sequence[Row]
    names: tuple[str, ...] | None = None
    home: Sequence[Row] | None = None
    down: tuple[str, ...] = ()
    sizes: tuple[int, ...] | None = None
    rule: Rule | None = None
    certificate: Certificate | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.topology, Topology):
            raise InvalidInput("topology", self.topology, "a Topology", "Wrap the nodes: Topology([...]).")
        for what, given in (("names", self.names or ()), ("down", self.down), ("sizes", self.sizes or ())):
            if not isinstance(given, tuple):
                raise InvalidInput(f"{what} of the assignment", given, "a tuple", "Write tuple(...) around it.")
        if not isinstance(self.rule, Rule | None):
            raise InvalidInput("rule of the assignment", self.rule, "a Rule, or None", "Write Rule(replicas=3).")
        object.__setattr__(self, "rows", _checked_rows(self.rows, len(self.topology)))
        if self.home is not None:
            object.__setattr__(self, "home", _checked_rows(self.home, len(self.topology)))
        for what, listed in (("home rows", self.home), ("names", self.names), ("sizes", self.sizes)):
            if listed is not None and len(listed) != len(self.rows):
                raise InvalidInput(f"{what} of the assignment", len(listed), f"{len(self.rows)}", "One per partition.")
        if self.names is not None:
            _check_names(self.names)
        if self.sizes is not None:
            check_sizes(self.sizes)
        for node_id in self.down:
            self.topology.index(node_id)
        if len(set(self.down)) != len(self.down):
            raise InvalidInput("nodes that are down", ", ".join(self.down), "each once", "Name each node once.")

    @property
    def home_rows(self) -> Sequence[Row]:
        """The rows over all nodes, up or not."""
        return self.rows if self.home is None else self.home

    @cached_property
    def preference_lists(self) -> PreferenceLists:
        """Every partition with its owners, in the order of partition numbers."""
        return PreferenceLists(self.topology, Rows.of(self.rows), self.names)

    @cached_property
    def loads(self) -> dict[str, int]:
        """The number of partitions on each node. Every copy counts."""
        loads = [0] * len(self.topology)
        for row in self.rows:
            for index in row:
                loads[index] += 1
        return dict(zip(self.topology.ids, loads, strict=True))

    @cached_property
    def leader_loads(self) -> dict[str, int]:
        """The number of partitions that each node leads."""
        loads = dict.fromkeys(self.topology.ids, 0)
        for row in self.rows:
            for index in row[:1]:
                loads[self.topology.ids[index]] += 1
        return loads

    @cached_property
    def degraded(self) -> dict[str, str]:
        """The partitions that break the rule's spread, each with its reason. A strict balancer makes none."""
        if self.rule is None:
            return {}
        domains = [node.fault_domain(self.rule.spread_level) for node in self.topology]
        reasons = {row: _degradation(row, domains, self.rule.replicas) for row in set(self.rows)}
        found = ((partition, reasons[row]) for partition, row in zip(self.preference_lists, self.rows, strict=True))
        return {partition: reason for partition, reason in found if reason}

    @cached_property
    def epoch(self) -> Epoch:
        """The number of the topology, and the digest of nodes, partitions and owners. O(size)."""
        names = "" if self.names is None else "\n".join(self.names)
        home, down = Rows.of(self.home_rows), "\n".join(self.down)
        digest = content_digest(
            self.topology.epoch.digest.encode(), names.encode(), down.encode(),
            Rows.of(self.rows).to_bytes(), home.to_bytes(),
        )  # fmt: skip
        return Epoch(number=self.topology.number, digest=digest)

    def size(self, partition: str | int) -> int | None:
        """Return the bytes of a partition, None if unknown; raise `InvalidInput` for an unknown partition."""
        place = self._place(partition)
        return None if self.sizes is None else self.sizes[place]

    def changes_from(self, before: "Assignment") -> tuple[Change, ...]:
        """Return the partitions with another list of owners, in order; a new partition had no owner before."""
        if not isinstance(before, Assignment):
            raise InvalidInput("before", before, "an Assignment", "Pass the earlier assignment.")
        changes = []
        for partition, after in self.preference_lists.items():
            was = before.preference_lists.get(partition, ())
            if was != after:
                changes.append(Change(partition, was, after))
        return tuple(changes)

    def moves_from(self, before: "Assignment") -> tuple[Move, ...]:
        """Return the copies to make and to drop, to get from another assignment to this one. O(size)."""
        changes = self.changes_from(before)
        return tuple(move for change in changes for move in moves_of(change, before.topology, self.topology))

    def __getitem__(self, partition: str | int) -> PreferenceList:
        """Return the owners of one partition; raise `InvalidInput` if no partition has that name. O(1)."""
        return tuple(self.topology.ids[index] for index in self.rows[self._place(partition)])

    # An assignment is no list of nodes, so it refuses iteration. Iterate over `preference_lists`.
    __iter__ = None

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, partition: object) -> bool:
        return partition in self.preference_lists

    def _place(self, partition: str | int) -> int:
        is_number = type(partition) is int and 0 <= partition < MAX_PARTITIONS
        place = self.preference_lists.place(str(partition) if is_number else partition)
        if place is None:
            known = f"one of 0 .. {len(self.rows) - 1}" if self.names is None else f"one of {len(self.names)} ids"
            raise InvalidInput("partition", partition, known, "Ask for a partition by its id.")
        return place

    def __repr__(self) -> str:
        return f"Assignment({len(self.rows)} partitions over {self.topology!r})"

    def _repr_html_(self) -> str:
        from apportion.model.notebook import html_of  # noqa: PLC0415 - only notebooks pay for it

        loads, leads = self.loads, self.leader_loads
        rows = (
            (node.id, "/".join(node.zone), f"{node.weight:g}", str(loads[node.id]), str(leads[node.id]))
            for node in self.topology
        )
        return html_of(repr(self), ("node", "zone", "weight", "partitions", "leads"), rows, len(self.topology))


def _checked_rows(rows: Sequence[Row], nodes: int) -> Rows:
    if not isinstance(rows, Rows):
        if not isinstance(rows, Sequence) or not all(type(row) is tuple for row in rows):
            raise InvalidInput("assignment rows", rows, "a tuple of tuples of indexes", "Write rows=((0,), (1,)).")
        for row in rows:
            if any(type(index) is not int or not 0 <= index < nodes for index in row):
                _refuse_row(row, nodes)
    laid = Rows.of(rows).trimmed()
    if not 0 < len(laid) <= MAX_PARTITIONS:
        raise InvalidInput("partitions", len(laid), f"1 .. {MAX_PARTITIONS}", "Assign at least one partition.")
    place = laid.first_invalid(nodes)
    if place is not None:
        _refuse_row(laid[place], nodes)
    return laid


def _refuse_row(row: Row, nodes: int) -> None:
    raise InvalidInput("assignment row", str(row), f"distinct indexes below {nodes}", "List each owner once.")


def _check_names(names: tuple[str, ...]) -> None:
    check_names("partition id", names)
    check_each_once(names)


def check_each_once(partitions: Sequence[str]) -> None:
    """Raise `InvalidInput` for a partition id that is listed twice. O(partitions log partitions)."""
    # Sorted, because a set of half a million ids would take more memory than a check of bad input may take.
    twice = next((each for each, after in pairwise(sorted(partitions)) if each == after), None)
    if twice is not None:
        raise InvalidInput("partition id", twice, "each once", "Drop the repeated ones; an int n means str(n).")


def check_sizes(sizes: tuple[int, ...]) -> None:
    """Raise `InvalidInput` for the first size that is not a number of bytes."""
    for size in sizes:
        if type(size) is not int or not 0 <= size <= MAX_SIZE:
            raise InvalidInput("size of a partition", size, f"bytes, 0 .. {MAX_SIZE}", "Leave sizes out if unknown.")


def _degradation(row: Row, domains: Sequence[object], replicas: int) -> str:
    if len(row) < replicas:
        return f"{len(row)} of {replicas} replicas"
    used = len({domains[index] for index in row})
    return f"{len(row)} replicas in {used} zones" if used < len(row) else ""
