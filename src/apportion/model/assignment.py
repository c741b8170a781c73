"""Assignment: which nodes hold each of an enumerated set of partitions.

Where keys are hashed to a fixed number of slots, the slots are such partitions.
"""

from dataclasses import dataclass
from functools import cached_property

from apportion.errors import InvalidInput
from apportion.model.topology import Topology

PreferenceList = tuple[str, ...]
"""Node ids that hold a partition, the leader first."""

MAX_PARTITIONS = 2**24


# Without slots: a cached property keeps its value in the object's own dictionary.
@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Row i holds the indexes (into `topology.nodes`) of the nodes that own partition i, the leader first.

    Partitions are named "0", "1", …; wherever a partition is asked for, the int n means `str(n)`.

    >>> assignment = Assignment(topology=Topology(["a", "b"]), rows=((0,), (1,), (1,)))
    >>> assignment[2], assignment["0"], assignment.loads
    (('b',), ('a',), {'a': 1, 'b': 2})
    """

    topology: Topology
    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.topology, Topology):
            raise InvalidInput("topology", self.topology, "a Topology", "Wrap the nodes: Topology([...]).")
        nodes = len(self.topology)
        if not all(type(row) is tuple for row in self.rows):
            raise InvalidInput("assignment rows", self.rows, "a tuple of tuples of indexes", "Write rows=((0,), (1,)).")
        if not 0 < len(self.rows) <= MAX_PARTITIONS:
            raise InvalidInput("partitions", len(self.rows), f"1 .. {MAX_PARTITIONS}", "Assign at least one partition.")
        for row in set(self.rows):
            if len(set(row)) != len(row) or any(type(index) is not int or not 0 <= index < nodes for index in row):
                raise InvalidInput(
                    "assignment row", str(row), f"distinct indexes below {nodes}", "List each owner once."
                )

    @cached_property
    def preference_lists(self) -> dict[str, PreferenceList]:
        """Every partition with its owners, in order of partition number."""
        return {str(number): self._named(row) for number, row in enumerate(self.rows)}

    @cached_property
    def loads(self) -> dict[str, int]:
        """How many partitions each node holds, every copy counted."""
        loads = dict.fromkeys(self.topology.ids, 0)
        for row in self.rows:
            for index in row:
                loads[self.topology.ids[index]] += 1
        return loads

    def __getitem__(self, partition: str | int) -> PreferenceList:
        """Return the owners of one partition; raise `InvalidInput` when there is none of that name. O(1)."""
        is_number = type(partition) is int and 0 <= partition < len(self.rows)
        owners = self.preference_lists.get(str(partition)) if is_number or isinstance(partition, str) else None
        if owners is None:
            raise InvalidInput(
                "partition", partition, f"one of 0 .. {len(self.rows) - 1}", "Ask for a partition by its number."
            )
        return owners

    def _named(self, row: tuple[int, ...]) -> PreferenceList:
        return tuple(self.topology.ids[index] for index in row)

    def __repr__(self) -> str:
        return f"Assignment({len(self.rows)} partitions over {self.topology!r})"
