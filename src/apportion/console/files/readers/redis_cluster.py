"""The output of `redis-cli cluster nodes`, read into a topology and an assignment of the 16 384 slots.

With the result, `RedisSlots(found.assignment)` is the cluster, and
`balance.slots(topology, previous=found.assignment)` is the next one. The plan between them lists the slots that a
`redis-cli --cluster` tool would have to move. The format is that of releases 3 to 8, with or without bus port, host
name and shard id. Node ids are Redis's own, 40 hexadecimal digits.

Promises: every slot has one owner, or the output is refused. An error about a gap names its first slot, and an
error about a line names the number of the line. The topology holds the nodes that may own slots, all of weight 1.
Replicas own no slots, so `replicas` names them outside the topology.
Refuses: owners that are down (`fail`), and replicas with slots. Owners that the asked node suspects (`fail?`) are
refused unless `accept_suspected`. Slots that are moving are refused unless `accept_migrating`. An accepted slot
belongs to the node that it leaves, as in Redis.
A node without slots is left out if it is down, suspected, without an address or in its handshake. Such a node cannot
own slots.

Source: the command CLUSTER NODES of Redis.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from apportion.console.files.io import as_text, read_bounded
from apportion.errors import BadRange, InvalidInput, UnknownOption
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology
from apportion.placement.layouts.redis_slots import SLOTS

MAX_BYTES = 16 * 2**20

# These are Redis's words, as its output has them. Other lines here use the words of this project instead.
_LEADER, _REPLICA = "master", "slave"
_FLAGS = ("myself", _LEADER, _REPLICA, "fail?", "fail", "handshake", "noaddr", "nofailover", "noflags")
_UNUSABLE = frozenset(("fail", "handshake", "noaddr", "noflags"))
_ID = re.compile(r"[0-9a-f]{40}")
_ADDRESS = re.compile(r"(?P<address>[^,@\s]*:[0-9]{1,5})(?:@[0-9]{1,5})?(?:,\S*)?")
_RANGE = re.compile(r"(?P<first>[0-9]{1,5})(?:-(?P<last>[0-9]{1,5}))?")
_MARK = re.compile(r"\[(?P<slot>[0-9]{1,5})-(?P<way>[<>])-(?P<other>[0-9a-f]{40})\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisCluster:
    """The owners of slots, their assignment, and the other facts of the output.

    `addresses` are `host:port` by id. `replicas` are the replicas of each owner that are up. The asked node shows its
    own moving slots: `migrating` maps a slot to its target, `importing` maps a slot to its source.
    """

    topology: Topology
    assignment: Assignment
    addresses: Mapping[str, str]
    replicas: Mapping[str, tuple[str, ...]]
    migrating: Mapping[int, str]
    importing: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    number: int
    id: str
    address: str
    flags: frozenset[str]
    leader: str
    ranges: tuple[tuple[int, int], ...]
    migrating: Mapping[int, str]
    importing: Mapping[int, str]

    @property
    def is_replica(self) -> bool:
        """Whether the line is about a node that follows another and owns no slots."""
        return _REPLICA in self.flags

    def is_usable(self, *, accept_suspected: bool) -> bool:
        """Whether the node may own slots: it has an address, and is not failing."""
        return not self.flags & _UNUSABLE and (accept_suspected or "fail?" not in self.flags)


def read_cluster_nodes(path: Path, *, accept_suspected: bool = False, accept_migrating: bool = False) -> RedisCluster:
    """Return the cluster from a file with the output of `redis-cli cluster nodes`."""
    data = read_bounded(path, MAX_BYTES, what="cluster nodes")
    text = as_text(data, str(path), what="cluster nodes")
    return parse_cluster_nodes(text, accept_suspected=accept_suspected, accept_migrating=accept_migrating)


def parse_cluster_nodes(text: str, *, accept_suspected: bool = False, accept_migrating: bool = False) -> RedisCluster:
    """Return the cluster from the output of `redis-cli cluster nodes`. O(length + slots).

    >>> found = parse_cluster_nodes('''
    ... 07c37dfeb235213a872192d90877d0cd55635b91 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-8191 8193
    ... 67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 10.0.0.2:6379@16379 master - 0 1 2 connected 8192 8194-16383
    ... ''')
    >>> [(found.addresses[node_id], load) for node_id, load in found.assignment.loads.items()]
    [('10.0.0.1:6379', 8193), ('10.0.0.2:6379', 8191)]
    """
    if len(text) > MAX_BYTES:
        raise InvalidInput("cluster nodes", text, f"at most {MAX_BYTES} characters", "Check that it is the right text.")
    lines = list(_lines(text))
    for line in lines:
        _check_owner(line, accept_suspected=accept_suspected, accept_migrating=accept_migrating)
    _check_leaders(lines)
    usable = [line for line in lines if line.is_usable(accept_suspected=accept_suspected)]
    owners = [line for line in usable if not line.is_replica]
    topology = Topology(line.id for line in owners)
    return RedisCluster(
        topology=topology,
        assignment=Assignment(topology=topology, rows=tuple(_rows(owners, topology))),
        addresses={line.id: line.address for line in lines},
        replicas={
            node_id: tuple(sorted(line.id for line in usable if line.is_replica and line.leader == node_id))
            for node_id in topology.ids
        },
        migrating={slot: other for line in owners for slot, other in line.migrating.items()},
        importing={slot: other for line in owners for slot, other in line.importing.items()},
    )


def _lines(text: str) -> Iterator[_Line]:
    """Yield the content of each line; refuse a line that cannot be read, or a node a second time."""
    seen: dict[str, int] = {}
    for number, said in enumerate(text.splitlines(), start=1):
        if said.strip():
            line = _line(number, said.split())
            if line.id in seen:
                _refuse(number, line.id, f"another node than in line {seen[line.id]}", "Pass the output of one node.")
            seen[line.id] = number
            yield line


def _line(number: int, words: list[str]) -> _Line:
    if len(words) < 8:
        expected = "id, address, flags, leader, two times, epoch, link state and slots"
        _refuse(number, " ".join(words), expected, "Pass the whole output of `redis-cli cluster nodes`.")
    node_id, address, flags, leader, *times, link = words[:8]
    found = _ADDRESS.fullmatch(address)
    if _ID.fullmatch(node_id) is None or found is None:
        _refuse(
            number,
            f"{node_id} {address}",
            "an id of 40 hexadecimal digits and host:port@port",
            "Pass the whole output.",
        )
    if not (leader == "-" or _ID.fullmatch(leader)) or link not in ("connected", "disconnected"):
        _refuse(
            number, f"{leader} {link}", "the leader's id or -, and (dis)connected in place 8", "Pass the whole output."
        )
    if not all(time.isdecimal() for time in times):
        _refuse(number, " ".join(times), "three numbers in places 5 to 7", "Pass the whole output.")
    marks = [_mark(number, word) for word in words[8:] if word.startswith("[")]
    return _Line(
        number=number,
        id=node_id,
        address=found["address"],
        flags=_flags(number, flags),
        leader=leader,
        ranges=tuple(_range(number, word) for word in words[8:] if not word.startswith("[")),
        migrating={slot: other for slot, way, other in marks if way == ">"},
        importing={slot: other for slot, way, other in marks if way == "<"},
    )


def _flags(number: int, text: str) -> frozenset[str]:
    flags = frozenset(text.split(","))
    for flag in sorted(flags):
        if flag not in _FLAGS:
            raise UnknownOption(f"flag in line {number} of cluster nodes", flag, _FLAGS)
    if len(flags & {_LEADER, _REPLICA}) != 1 and not flags & {"handshake", "noflags"}:
        _refuse(number, text, f"one of {_LEADER} and {_REPLICA}", "Pass the output as it is.")
    return flags


def _range(number: int, word: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(word)
    first = int(found["first"]) if found else SLOTS
    last = int(found["last"] or first) if found else SLOTS
    if not first <= last < SLOTS:
        _refuse(number, word, f"slots like 7 or 0-5460, below {SLOTS}", "Pass the output as it is.")
    return first, last


def _mark(number: int, word: str) -> tuple[int, str, str]:
    found = _MARK.fullmatch(word)
    if found is None or int(found["slot"]) >= SLOTS:
        _refuse(number, word, "a mark like [7->-id] or [7-<-id]", "Pass the output as it is.")
    return int(found["slot"]), found["way"], found["other"]


def _check_owner(line: _Line, *, accept_suspected: bool, accept_migrating: bool) -> None:
    """Refuse slots without a usable owner, and slots that are moving."""
    if line.ranges and line.is_replica:
        _refuse(line.number, line.id, "a replica without slots", "Ask another node of the cluster.")
    if line.ranges and not line.is_usable(accept_suspected=accept_suspected):
        is_suspected = line.is_usable(accept_suspected=True)
        hint = "Wait until a replica has taken over, and ask again"
        flags = ",".join(sorted(line.flags))
        _refuse(
            line.number, f"{flags} ({line.address} owns slots)", "an owner that is up",
            f"{hint}{_unless('suspected')}" if is_suspected else f"{hint}.",
        )  # fmt: skip
    moving = sorted({*line.migrating, *line.importing})
    if moving and not accept_migrating:
        _refuse(
            line.number, f"slot {moving[0]} moving, and {len(moving) - 1} more", "slots that stay where they are",
            f"Wait until `redis-cli --cluster fix` or the reshard has ended{_unless('migrating')}",
        )  # fmt: skip


def _unless(state: str) -> str:
    return f", or pass accept_{state}=True (on the command line: --accept-{state})."


def _check_leaders(lines: Iterable[_Line]) -> None:
    """Refuse output that was cut: the leader of a replica has a line of its own."""
    listed = list(lines)
    known = {line.id for line in listed}
    for line in listed:
        if line.leader != "-" and line.leader not in known:
            _refuse(line.number, line.leader, "the id of a leader with a line of its own", "Pass the whole output.")


def _rows(owners: Iterable[_Line], topology: Topology) -> Iterator[tuple[int]]:
    """Return the owner of each slot; raise `BadRange` for a slot that is named twice, or without an owner."""
    taken: dict[int, _Line] = {}
    for line in owners:
        for slot in (slot for first, last in line.ranges for slot in range(first, last + 1)):
            if slot in taken:
                expected = f"named once; line {taken[slot].number} has it"
                hint = "Ask another node of the cluster: this one knows only a part of a change."
                raise BadRange(f"line {line.number} of cluster nodes: slot", slot, expected, hint)
            taken[slot] = line
    gaps = [slot for slot in range(SLOTS) if slot not in taken]
    if gaps:
        hint = "Pass the whole output. `redis-cli --cluster check` names the missing slots."
        raise BadRange("cluster nodes: slot", gaps[0], f"a slot with an owner; {len(gaps)} slots have none", hint)
    return ((topology.index(taken[slot].id),) for slot in range(SLOTS))


def _refuse(number: int, value: object, expected: str, hint: str) -> NoReturn:
    raise InvalidInput(f"line {number} of cluster nodes", value, expected, hint)
