"""jump-consistent-hash: jump hashing in C. It takes integers, so a key is hashed by `mmh3` first, the fastest there is.

Documented: the algorithm of Lamping and Veach 2014, over the nodes in their order; here sorted, so that the order in
which a list came is no answer.
"""

from importlib.metadata import version

import mmh3

from bench.contender import Contender, Route, installed, missing


def _build(nodes: list[str]) -> Route:
    from jump import hash as jump_hash  # noqa: PLC0415 - perhaps not installed

    order, count, digest = sorted(nodes), len(nodes), mmh3.hash64

    def route(key: str) -> str:
        node: str = order[jump_hash(digest(key, signed=False)[0], count)]
        return node

    return route


def _documented(nodes: list[str]) -> Route:
    order = sorted(nodes)
    return lambda key: order[_lamping_veach(mmh3.hash64(key, signed=False)[0], len(nodes))]


def _lamping_veach(key: int, count: int) -> int:
    """Return the bucket of a key, as the paper's code does."""
    bucket, following = -1, 0
    while following < count:
        bucket = following
        key = (key * 2862933555777941757 + 1) % 2**64
        following = int((bucket + 1) * (2**31 / ((key >> 33) + 1)))
    return bucket


JUMP_CONSISTENT_HASH = Contender(
    name="jump-consistent-hash (mmh3)",
    version=f"{installed('jump-consistent-hash')}, mmh3 {version('mmh3')}",
    build=_build,
    absent=missing("jump-consistent-hash"),
    documented=_documented,
)
