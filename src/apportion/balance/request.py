"""The request of `optimal`: its arguments, each checked before any effect, and the assignment that answers them.

Refuses: to decide an owner; `optimal` and the solver do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import repeat

from apportion.balance.arguments import (
    Partitions,
    check_ids,
    check_previous,
    check_topology,
    checked_count,
    id_of,
    listed_partitions,
)
from apportion.balance.solver.repair import RepairStep
from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment, Rule, check_sizes
from apportion.model.certificate import Certificate
from apportion.model.epoch import content_digest
from apportion.model.topology import Topology

Sizes = Mapping[str, int] | Sequence[int]


@dataclass(frozen=True, slots=True)
class OptimalRequest:
    """Checked input: the sorted partition ids (None for the ids 0, 1, …), and the assignment to start from."""

    topology: Topology
    _: KW_ONLY
    count: int
    names: tuple[str, ...] | None
    previous: Assignment | None
    up: tuple[bool, ...]
    sizes: tuple[int, ...] | None

    @classmethod
    def checked(
        cls,
        partitions: Partitions,
        topology: Topology,
        previous: Assignment | None,
        live: Iterable[str] | None,
        sizes: Sizes | None,
    ) -> "OptimalRequest":
        """Return the request if it is valid; raise `InvalidInput` or `UnknownNode` for the first error."""
        check_topology(topology)
        if previous is not None:
            check_previous(previous, topology)
        given = None if isinstance(partitions, int) else listed_partitions(partitions)
        count = checked_count(partitions) if isinstance(partitions, int) else len(given or ())
        names = None if given is None else tuple(sorted(given, key=lambda name: (len(name), name)))
        if names is not None and names == tuple(map(str, range(count))):
            names = None
        return cls(
            topology,
            count=count,
            names=names,
            previous=previous,
            up=_up(topology, live),
            sizes=_known_sizes(_with_known(sizes, previous, names, count), given, names, count),
        )

    @property
    def ids(self) -> Iterator[str]:
        """The partition ids in their order."""
        return iter(map(str, range(self.count)) if self.names is None else self.names)

    def digest(self, rule: Rule) -> str:
        """Digest the request: the rule, the partitions and the nodes that are down."""
        asked = f"{rule.replicas} {rule.spread_level} {rule.spread}", str(self.count), str(len(self.names or ()))
        parts = [*asked, *(self.names or ()), *self._down()]
        return content_digest(*(part.encode() for part in parts))

    def _down(self) -> tuple[str, ...]:
        return tuple(node_id for node_id, is_up in zip(self.topology.ids, self.up, strict=True) if not is_up)

    def assignment(self, rule: Rule, home: RepairStep, current: RepairStep | None) -> Assignment:
        """Return the assignment that results from the two steps."""
        return Assignment(
            topology=self.topology,
            rows=(current or home).rows,
            names=self.names,
            home=None if current is None else home.rows,
            down=self._down(),
            sizes=self.sizes,
            rule=rule,
            certificate=Certificate(
                previous="" if self.previous is None else self.previous.epoch.digest,
                topology=self.topology.epoch.digest,
                options=self.digest(rule),
                home=home.proof,
                current=None if current is None else current.proof,
            ),
        )


def _up(topology: Topology, live: Iterable[str] | None) -> tuple[bool, ...]:
    if live is None:
        return tuple(repeat(True, len(topology)))
    check_ids("live", live)
    up = {topology.index(node_id) for node_id in live}
    return tuple(index in up for index in range(len(topology)))


def _with_known(
    sizes: Sizes | None, previous: Assignment | None, names: Sequence[str] | None, count: int
) -> Sizes | None:
    """Return the given sizes, completed by the sizes known from before for partitions without a given one."""
    if previous is None or previous.sizes is None or not isinstance(sizes, Mapping | None):
        return sizes
    before = dict(zip(previous.preference_lists, previous.sizes, strict=True))
    asked = map(str, range(count)) if names is None else names
    known = {name: before[name] for name in asked if name in before}
    return known | {
        partition if type(partition) is str else str(partition): size for partition, size in (sizes or {}).items()
    }


def _known_sizes(
    sizes: Sizes | None, given: Sequence[str] | None, names: Sequence[str] | None, count: int
) -> tuple[int, ...] | None:
    if sizes is None:
        return None
    ids = list(map(str, range(count))) if names is None else names
    return checked_sizes(sizes, ids if given is None else given, ids)


def checked_sizes(sizes: Sizes, given: Sequence[str], ids: Sequence[str]) -> tuple[int, ...]:
    """Return the sizes in the order of `ids`; a sequence of them has the order of `given`. `InvalidInput` otherwise."""
    count = len(ids)
    if isinstance(sizes, Mapping):
        by_id = {id_of(partition): size for partition, size in sizes.items()}
    elif isinstance(sizes, Sequence) and not isinstance(sizes, (str, bytes)):
        if len(sizes) != count:
            raise InvalidInput(
                "sizes",
                f"{len(sizes)} of them",
                f"{count}, one per partition",
                "Pass one per partition, or a mapping by id.",
            )
        by_id = dict(zip(given, sizes, strict=True))
    else:
        raise InvalidInput("sizes", sizes, "a mapping of ids to bytes, or a list", "Convert an array: sizes.tolist().")
    missing = next((name for name in ids if name not in by_id), None)
    if missing is not None:
        hint = "Pass 0 for an unknown size, or leave sizes out."
        raise InvalidInput("sizes", f"without {missing!r}", "one for each partition", hint)
    if len(by_id) != len(sizes) or len(sizes) != count:
        known = set(ids)
        more = next((name for name in by_id if name not in known), "one id twice")
        raise InvalidInput("sizes", more, "ids of partitions, each once", "Drop the ids that are not partitions.")
    sized = tuple(by_id[name] for name in ids)
    check_sizes(sized)
    return sized
