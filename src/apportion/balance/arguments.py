"""Arguments that several balancers take, checked alike: topologies, assignments, and ids of partitions and nodes."""

from collections.abc import Iterable
from itertools import islice

from apportion.errors import InvalidInput
from apportion.model.assignment import MAX_PARTITIONS, Assignment, check_each_once
from apportion.model.topology import Topology, check_names

Partitions = int | Iterable[str | int]


def check_topology(topology: Topology) -> None:
    """Raise `InvalidInput` for a value that is no topology."""
    if not isinstance(topology, Topology):
        raise InvalidInput("topology", topology, "a Topology", "Wrap the nodes: Topology([...]).")


def check_assignment(name: str, assignment: Assignment) -> None:
    """Raise `InvalidInput` for a value that is no assignment."""
    if not isinstance(assignment, Assignment):
        raise InvalidInput(name, assignment, "an Assignment", "Pass an assignment, as balance.optimal returns one.")


def check_previous(previous: Assignment, topology: Topology) -> None:
    """Raise `InvalidInput` for a value that is no assignment, or one of another cluster."""
    if not isinstance(previous, Assignment):
        raise InvalidInput("previous", previous, "an Assignment", "Pass the assignment that was made before.")
    if previous.topology.cluster != topology.cluster:
        hint = "Start from an assignment of the same cluster."
        raise InvalidInput("cluster of previous", previous.topology.cluster, repr(topology.cluster), hint)


def check_ids(what: str, ids: Iterable[str]) -> None:
    """Raise `InvalidInput` for a single id instead of several: its letters are no ids."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InvalidInput(what, ids, "an iterable of node ids", "Put a single id in a list.")


def checked_count(count: int) -> int:
    """Return the number of partitions of a request; raise `InvalidInput` for an impossible one."""
    if type(count) is not int or not 0 < count <= MAX_PARTITIONS:
        raise InvalidInput("partitions", count, f"1 .. {MAX_PARTITIONS} of them", "Pass a count, or a list of ids.")
    return count


def listed_partitions(partitions: Iterable[str | int]) -> tuple[str, ...]:
    """Return the ids that a caller listed, in its order; raise `InvalidInput` for none, too many, or a wrong one."""
    if isinstance(partitions, (str, bytes)) or not isinstance(partitions, Iterable):
        raise InvalidInput("partitions", partitions, "a count, or an iterable of ids", "Put a single id in a list.")
    listed = list(islice(partitions, MAX_PARTITIONS + 1))
    checked_count(len(listed))
    return partition_ids(listed)


def partition_ids(given: Iterable[object]) -> tuple[str, ...]:
    """Return the ids of partitions, each once; an int n means str(n). Raise `InvalidInput` otherwise."""
    listed = check_names("partition id", list(map(id_of, given)))
    if len(set(listed)) < len(listed):
        check_each_once(listed)
    return tuple(listed)


def id_of(partition: object) -> object:
    """Return the id that an int stands for; return other values, and ints too long to write out, unchanged."""
    return str(partition) if type(partition) is int and partition.bit_length() <= 64 else partition
