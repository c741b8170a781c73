"""The output of Cassandra's `nodetool ring` and `nodetool describering KEYSPACE`, read into nodes and tokens.

With the result, `placement.cassandra.Cassandra(found.topology, tokens=found.tokens, strategy=...)` is the cluster.
Both formats are those of releases 3.11 and 4.x, with or without ports (`-pp`) and host names (`-r`).

Promises: a node is its address as printed, and its zone is (datacenter, rack). A line with an unknown form is
refused, and the error gives its number. Output that was cut is refused too. Cut output of describering has a range
that does not begin where the range before it ends. In the output of ring, a line above the rows of a datacenter has
the token of its last row. If the output is cut, that row is missing. A node that is not up still owns its tokens;
`not_up` names it.
Refuses: nodes that join, leave or move, because the cluster still changes from one ring to another. It refuses tokens
that are not numbers (ByteOrderedPartitioner).
In describering, the reader takes the first endpoint of a range as the owner of the range's end token. This is right
for a keyspace with replicas in every datacenter. For other keyspaces, nodes in the other datacenters are not seen.

Source: the `Ring` and `DescribeRing` commands of Apache Cassandra.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from apportion.console.files.io import as_text, read_bounded
from apportion.errors import InvalidInput
from apportion.model.topology import Node, Topology, check_name

MAX_BYTES = 256 * 2**20
MAX_LINE_CHARACTERS = 4096
_LEAST, _MOST = -(2**63), 2**127

# A rack of twelve characters or more leaves no blank before the status.
_ROW = re.compile(
    r"(?P<address>\S+) +(?P<rack>\S.*?) *(?P<status>Up|Down|\?) +(?P<state>Normal|Joining|Leaving|Moving) +"
    r"(?P<load>\?|[\d.,]+ \w+) +(?P<owns>\?|[\d.,]+ ?%) +(?P<token>-?[0-9]{1,39})"
)
_HEADINGS = ["Address", "Rack", "Status", "State", "Load", "Owns", "Token"]
_REMARKS = ('Warning: "nodetool ring"', "To view status related info", "Note: ")
_RANGE = re.compile(
    r"TokenRange\(start_token:(?P<start>-?[0-9]{1,39}), end_token:(?P<end>-?[0-9]{1,39}), "
    r"endpoints:\[(?P<endpoints>.*)\], rpc_endpoints:\[.*\], endpoint_details:\[(?P<details>.*)\]\)"
)
# A token in hexadecimal digits, bare or as `Token(bytes[...])`. It stands in the last column of a row, alone on a
# line above the rows, or in a range.
_TOKEN_OF_BYTES = re.compile(
    r"(?:^|% +|\? +|(?:start|end)_token:)(?:Token\(bytes\[)?"
    r"(?P<token>(?=[0-9]*[a-f])(?:[0-9a-f]{2})+)\b(?:\]\))?(?:$|,)"
)
_DETAIL = re.compile(
    r"EndpointDetails\(host:(?P<host>[^,)]+), datacenter:(?P<datacenter>[^,)]+), rack:(?P<rack>[^)]+)\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRing:
    """The nodes with their tokens, sorted, and those that were not up.

    `replicas` maps the end token of a range to the nodes that hold the range, in Cassandra's order. Only describering
    gives them.
    """

    topology: Topology
    tokens: Mapping[str, tuple[int, ...]]
    not_up: tuple[str, ...]
    replicas: Mapping[int, tuple[str, ...]]


def read_token_ring(path: Path) -> TokenRing:
    """Return the ring from a file with the output of either command."""
    data = read_bounded(path, MAX_BYTES, what="nodetool output")
    text = as_text(data, str(path), what="nodetool output")
    return parse_describering(text) if "TokenRange(" in text else parse_ring(text)


def parse_ring(text: str) -> TokenRing:
    """Return the ring from the output of `nodetool ring`.

    >>> found = parse_ring('''
    ... Datacenter: dc1
    ... ==========
    ... Address     Rack        Status State   Load            Owns                Token
    ...                                                                            42
    ... 10.0.0.1    rack1       Up     Normal  98.97 KiB       50.00%              -7
    ... 10.0.0.2    rack2       Down   Normal  ?               50.00%              42
    ... ''')
    >>> found.tokens, found.topology["10.0.0.1"].zone, found.not_up
    ({'10.0.0.1': (-7,), '10.0.0.2': (42,)}, ('dc1', 'rack1'), ('10.0.0.2',))
    """
    cluster = _Cluster()
    datacenter, last = "", None
    for number, line in _lines(text, skip=_is_ring_decoration):
        row = _ROW.fullmatch(line)
        if row:
            _add_row(cluster, number, row, datacenter)
        elif line.startswith("Datacenter: "):
            cluster.check_listed(last)
            datacenter, last = line.removeprefix("Datacenter: ").strip(), None
        elif re.fullmatch(r"-?[0-9]{1,39}", line):
            last = (number, int(line))
        else:
            _refuse_token_of_bytes(number, line)
            _refuse(number, line, "a row of `nodetool ring`", "Pass the whole output, unchanged.")
    cluster.check_listed(last)
    return cluster.ring()


def parse_describering(text: str) -> TokenRing:
    """Return the ring from the output of `nodetool describering KEYSPACE`.

    >>> found = parse_describering('''
    ... Schema Version:a49b80fb-839c-3ea0-ad1a-8782f38b8e44
    ... TokenRange:
    ...     TokenRange(start_token:42, end_token:42, endpoints:[10.0.0.1], rpc_endpoints:[10.0.0.1], '''
    ... '''endpoint_details:[EndpointDetails(host:10.0.0.1, datacenter:dc1, rack:rack1)])
    ... ''')
    >>> found.tokens, found.replicas
    ({'10.0.0.1': (42,)}, {42: ('10.0.0.1',)})
    """
    cluster = _Cluster()
    ranges: list[tuple[int, int, int]] = []
    replicas: dict[int, tuple[str, ...]] = {}
    for number, line in _lines(text, skip=_is_ranges_heading):
        found = _RANGE.fullmatch(line)
        if not found:
            _refuse_token_of_bytes(number, line)
            _refuse(number, line, "a line 'TokenRange(...)'", "Pass the whole output, unchanged.")
        owners, end = _owners(number, found["endpoints"], found["details"]), int(found["end"])
        for address, zone in owners.items():
            cluster.add_node(number, address, zone, is_up=True)
        cluster.add_token(number, next(iter(owners)), end)
        ranges.append((end, int(found["start"]), number))
        replicas[end] = tuple(owners)
    _check_joined(sorted(ranges))
    return cluster.ring(replicas)


def write_initial_tokens(tokens: Mapping[str, Iterable[int]]) -> str:
    """Return the lines of each node's cassandra.yaml with its tokens, sorted by id, to build the same ring again.

    `tokens` are those of a `TokenRing` or of a `Cassandra`. Raises `InvalidInput` for a node without tokens, because
    Cassandra would choose some.

    >>> print(write_initial_tokens({"10.0.0.1": (-7, 42)}), end="")
    # 10.0.0.1
    num_tokens: 2
    initial_token: -7,42
    """
    parts = []
    for node_id, own in sorted(tokens.items()):
        listed = sorted(own)
        if not listed:
            hint = "Drop the node, or give it tokens. Without tokens, Cassandra chooses some itself."
            raise InvalidInput(f"tokens of node {node_id!r}", "none", "at least one", hint)
        name, values = check_name("node id", node_id), ",".join(map(str, listed))
        parts.append(f"# {name}\nnum_tokens: {len(listed)}\ninitial_token: {values}\n")
    return "".join(parts)


class _Cluster:
    """The facts read so far: the place of each node, the owner of each token, and the line of each token."""

    def __init__(self) -> None:
        self._zones: dict[str, tuple[str, str]] = {}
        self._owners: dict[int, tuple[str, int]] = {}
        self._not_up: set[str] = set()

    def add_node(self, number: int, address: str, zone: tuple[str, str], *, is_up: bool) -> None:
        """Keep the place of a node; refuse a second place."""
        known = self._zones.setdefault(address, zone)
        if known != zone:
            _refuse(number, "/".join(zone), f"{'/'.join(known)}, as above for {address}", "Ask the cluster again.")
        if not is_up:
            self._not_up.add(address)

    def add_token(self, number: int, address: str, token: int) -> None:
        """Keep the owner of a token; refuse a second owner."""
        if not _LEAST <= token <= _MOST:
            _refuse(number, token, "a token of at most 2**127 and at least -2**63", "Check the end of the line.")
        if token in self._owners:
            address, before = self._owners[token]
            _refuse(number, token, f"another token than {address} has in line {before}", "Ask the cluster again.")
        self._owners[token] = (address, number)

    def check_listed(self, last: tuple[int, int] | None) -> None:
        """Refuse output that was cut: one row of a datacenter must have the token that stands above its rows."""
        if last and last[1] not in self._owners:
            _refuse(last[0], last[1], "the token of a row below it", "Rows are missing: pass the whole output.")

    def ring(self, replicas: Mapping[int, tuple[str, ...]] | None = None) -> TokenRing:
        """Return all facts as a ring; refuse a ring without tokens."""
        if not self._owners:
            raise InvalidInput("nodetool output", "no rows", "at least one token", "Check that it is the right file.")
        topology = Topology(Node(address, zone=zone) for address, zone in self._zones.items())
        tokens: dict[str, list[int]] = {node_id: [] for node_id in topology.ids}
        for token, (address, _) in sorted(self._owners.items()):
            tokens[address].append(token)
        return TokenRing(
            topology=topology,
            tokens={node_id: tuple(own) for node_id, own in tokens.items()},
            not_up=tuple(sorted(self._not_up)),
            replicas=replicas or {},
        )


def _lines(text: str, *, skip: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """Yield each line with content: its number, and its text without the blanks around it."""
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > MAX_LINE_CHARACTERS:
            _refuse(number, line, f"at most {MAX_LINE_CHARACTERS} characters", "Check that it is the right file.")
        said = line.strip()
        if said and not skip(said):
            yield number, said


def _is_ring_decoration(line: str) -> bool:
    return set(line) == {"="} or line.split() == _HEADINGS or line.startswith(_REMARKS)


def _is_ranges_heading(line: str) -> bool:
    return line.startswith("Schema Version:") or line == "TokenRange:"


def _add_row(cluster: _Cluster, number: int, row: re.Match[str], datacenter: str) -> None:
    if not datacenter:
        _refuse(number, row[0], "a line 'Datacenter: ...' above the first row", "Pass the whole output.")
    if row["state"] != "Normal":
        _refuse(number, row["state"], "Normal", "Wait until the node has joined, left or moved, and ask again.")
    cluster.add_node(number, row["address"], (datacenter, row["rack"]), is_up=row["status"] == "Up")
    cluster.add_token(number, row["address"], int(row["token"]))


def _owners(number: int, endpoints: str, details: str) -> dict[str, tuple[str, str]]:
    listed = endpoints.split(", ") if endpoints else []
    found = [_DETAIL.fullmatch(detail) for detail in re.split(r"(?<=\)), ", details)]
    zones = {detail["host"]: (detail["datacenter"], detail["rack"]) for detail in found if detail}
    if not listed or list(zones) != listed or len(found) != len(listed):
        expected = "endpoints, with the datacenter and rack of each, in the same order"
        _refuse(number, f"{endpoints}; {details}", expected, "Take a keyspace with replicas, and pass the line whole.")
    return zones


def _check_joined(ranges: Iterable[tuple[int, int, int]]) -> None:
    """Refuse output that was cut: each range (end, start, line) begins at the end of the range before it."""
    listed = list(ranges)
    for (before, _, _), (_, start, number) in pairwise([*listed[-1:], *listed]):
        if start != before:
            _refuse(number, start, f"{before}, where the range before it ends", "Lines are missing: pass all of them.")


def _refuse_token_of_bytes(number: int, line: str) -> None:
    """Refuse a line with a token of ByteOrderedPartitioner in place of a number; the error shows the token."""
    found = _TOKEN_OF_BYTES.search(line)
    if found:
        hint = "Tokens of ByteOrderedPartitioner are not read: ask placement.cassandra.replicas_of in Python."
        _refuse(number, found["token"], "a token that is a number", hint)


def _refuse(number: int, value: object, expected: str, hint: str) -> NoReturn:
    raise InvalidInput(f"line {number} of the nodetool output", value, expected, hint)
