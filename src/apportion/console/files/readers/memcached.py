"""Server lists of memcached clients: servers with their weights, separated by commas, blanks or lines.

    # Two spellings of a weight, which is 1 where it is left out.
    cache1.example:11211 600
    10.0.0.2:11211:300, [2001:db8::3]:11211

A server is `host:port`, and an IPv6 address stands in brackets. This text is the node's id. A whole number after a
blank, or after a second colon, is the weight of the server before it. A comment goes from `#` to the end of the line.

Promises: every error about one server names the line; a written list reads back as the same nodes.
Refuses: a server without a port, one listed twice, or one of weight 0. Some clients read weight 0 as 1; others drop
the whole list.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from apportion.console.files.io import as_text, read_bounded
from apportion.errors import BadWeight, InvalidInput
from apportion.model.topology import MAX_NODES, MAX_WEIGHT, Node, Topology

MAX_BYTES = 16 * 2**20

_SERVER = re.compile(r"(?P<id>(?:\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@]+):(?P<port>[1-9][0-9]{0,4}))(?::(?P<weight>[0-9]+))?")
_WEIGHT = re.compile(r"[0-9]+")
_EXAMPLE = "Write cache1:11211, cache1:11211 2 or cache1:11211:2; 11211 is memcached's own port."


def read_memcached(path: Path) -> Topology:
    """Return the topology that a file with a server list describes."""
    data = read_bounded(path, MAX_BYTES, what="server list")
    return parse_memcached(as_text(data, str(path), what="server list"))


def parse_memcached(text: str) -> Topology:
    """Return the topology that a server list describes, at most 100 000 servers. O(length).

    >>> [(node.id, node.weight) for node in parse_memcached("b:11211 2, a:11212")]
    [('a:11212', 1.0), ('b:11211', 2.0)]
    """
    if len(text) > MAX_BYTES:
        raise InvalidInput("server list", text, f"at most {MAX_BYTES} characters", "Check that it is a server list.")
    nodes: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for word, node in _servers(number, line):
            if node.id in nodes:
                _refuse(number, word, f"each server once; line {lines[node.id]} has it too", "Drop one of the two.")
            if len(nodes) == MAX_NODES:
                _refuse(number, word, f"at most {MAX_NODES} servers", "Split the list.")
            nodes[node.id], lines[node.id] = node, number
    if not nodes:
        raise InvalidInput("server list", text, "at least one server", _EXAMPLE)
    return Topology(nodes.values())


def write_memcached(topology: Topology) -> str:
    """Return a server list of a topology's ids and weights, one per line, sorted by id. It has no place for zones.

    Raises `InvalidInput` for an id that is not `host:port`, and `BadWeight` for a weight that is 0 or not whole.

    >>> write_memcached(Topology([Node("a:11211", weight=2), "b:11211"]))
    'a:11211 2\\nb:11211 1\\n'
    """
    for node in topology:
        found = _SERVER.fullmatch(node.id)
        if found is None or found["weight"] or "#" in node.id or "," in node.id or int(found["port"]) > 65_535:
            raise InvalidInput("node id", node.id, "host:port, as a server list has it", _EXAMPLE)
        if node.weight < 1 or node.weight % 1:
            hint = "Leave draining nodes out with topology.without; multiply other weights by one factor."
            raise BadWeight(f"weight of node {node.id!r}", node.weight, "a whole number of at least 1", hint)
    return "".join(f"{node.id} {node.weight:.0f}\n" for node in topology)


def _servers(number: int, line: str) -> Iterator[tuple[str, Node]]:
    """Yield the servers of a line, each with the word that it was read from."""
    parts = line.partition("#")[0].split(",")
    if not parts[-1].strip():
        parts.pop()  # a comma may end a line if the list continues in the next
    for part in parts:
        words = part.split()[::-1]
        if not words:
            _refuse(number, line.strip(), "a server before each comma", "Drop the comma.")
        while words:
            word = words.pop()
            weight = words.pop() if words and _WEIGHT.fullmatch(words[-1]) else None
            yield word, _server(number, word, weight)


def _server(number: int, word: str, weight: str | None) -> Node:
    found = _SERVER.fullmatch(word)
    if found is None or int(found["port"]) > 65_535:
        _refuse(number, word, "host:port or host:port:weight", _EXAMPLE)
    if weight is not None and found["weight"] is not None:
        _refuse(number, f"{word} {weight}", "one weight for a server", _EXAMPLE)
    text = weight or found["weight"] or "1"
    if len(text) > 10 or not 1 <= int(text) <= MAX_WEIGHT:
        _refuse(number, text, f"a weight in 1 .. {MAX_WEIGHT:.0f}", "Leave out a server that owns nothing.")
    try:
        return Node(found["id"], weight=int(text))
    except InvalidInput as error:
        raise InvalidInput(f"server list, line {number}", word, f"a name ({error.problem})", error.hint) from error


def _refuse(number: int, value: str, expected: str, hint: str) -> NoReturn:
    raise InvalidInput(f"server list, line {number}", value, expected, hint)
