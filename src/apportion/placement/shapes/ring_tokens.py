"""Ring tokens: the places of the tokens of a ring, in format 1: fixed for ever.

Token k of node `id` is the hash of `b"ring/1"`, the length of the id (4 bytes), the id, and k (4 bytes), integers
little-endian. The length keeps ("a:1", 1) and ("a", 11) apart.
"""

from collections.abc import Iterator

from apportion.model.token import Token
from apportion.placement.hashers import Digest


def ring_tokens(node_id: str, count: int, digest: Digest) -> Iterator[Token]:
    """Yield the first `count` tokens of a node."""
    name = node_id.encode()
    label = b"ring/1" + len(name).to_bytes(4, "little") + name
    return (digest(label + number.to_bytes(4, "little")) for number in range(count))
