"""The consistent hash of nginx (`hash KEY consistent;` in an upstream block), to the byte.

Promises: the server that nginx would pass a request to while all servers are up. When a server comes, goes or changes
weight, only keys that it gains or loses move, because its points depend only on its own line.
Refuses: fractional weights, which nginx does not have; `hash KEY;` without `consistent`, which is another rule.
One key differs: nginx gives the empty key to its servers in turn, while here the empty key has one owner.

Format: `docs/algorithms/nginx.md`.
Source: nginx 1.22, ngx_http_upstream_hash_module.
"""

from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass

from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.token import Token
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import FixedHasher
from apportion.placement.layouts.circle import Foreign, check_distinct, check_tokens, owning_nodes
from apportion.placement.shapes.circle import Circle, position_of_token
from apportion.placement.shapes.rebuilt import Rebuilt

POINTS_PER_WEIGHT = 160
_DIGITS = frozenset("0123456789")
HASHER = FixedHasher("crc32", 32, crc32)


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Nginx(Rebuilt, Foreign):
    """The servers of an upstream block. Build: O(tokens log tokens). Lookup: O(log tokens).

    A node's id is the address in the `server` line, and its weight is that of the line. A draining node has no line.

    >>> upstream = Nginx(["10.0.0.1:8080", "10.0.0.2:8080", "unix:/run/app.sock"])
    >>> upstream.route("/index.html")
    '10.0.0.1:8080'
    """

    def __init__(self, nodes: Nodes) -> None:
        topology = topology_of(nodes)
        servers = owning_nodes(topology, "nginx")
        check_distinct(servers, [_label(server.id) for server in servers], "nginx")
        check_tokens(sum(POINTS_PER_WEIGHT * server.millionths // 1_000_000 for server in servers), "nginx")
        self._fill_foreign(topology, HASHER)

    def explain(self, key: Key) -> Explanation:
        """Return the point that owns a key, and the next server: the points of the others stay when one leaves."""
        return Circle.explain(self, key)

    def _tokens_of(self, index: int) -> Iterator[Token]:
        node = self.topology.nodes[index]
        server, point = crc32(_label(node.id)), 0
        for _ in range(POINTS_PER_WEIGHT * node.millionths // 1_000_000):
            point = crc32(point.to_bytes(4, "little"), server)
            yield position_of_token(point, 32)


def _label(node_id: str) -> bytes:
    """Return host, NUL and port of a server: the bytes from which its points are computed."""
    if node_id[:5].lower() == "unix:":
        return node_id[5:].encode() + b"\0"
    host, colon, digits = node_id.rpartition(":")
    has_port = colon and set(digits) <= _DIGITS
    return f"{host}\0{digits}".encode() if has_port else node_id.encode() + b"\0"


SPEC = PlacementSpec(
    name="nginx",
    build=Nginx,
    source="nginx 1.22, ngx_http_upstream_hash_module",
    minimal_disruption=True,
    weighted=True,
    ranked=True,
    tabular=True,
    lookup="O(log tokens)",
)
