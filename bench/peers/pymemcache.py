"""pymemcache: `RendezvousHash`, which its `HashClient` asks for the server of each key.

Its MurmurHash3 is written in Python and asked once per node, so it is timed on small fleets and few keys.
Documented: the highest hash of "node-key" wins, the greater name where two are equal.
"""

from bench.contender import Contender, Route, installed, missing


def _build(nodes: list[str]) -> Route:
    from pymemcache.client.rendezvous import RendezvousHash  # noqa: PLC0415 - perhaps not installed

    hasher = RendezvousHash()
    for node in nodes:
        hasher.add_node(node)
    route: Route = hasher.get_node
    return route


def _documented(nodes: list[str]) -> Route:
    from pymemcache.client.murmur3 import murmur3_32  # noqa: PLC0415

    return lambda key: max(nodes, key=lambda node: (murmur3_32(f"{node}-{key}", 0), node))


PYMEMCACHE = Contender(
    name="pymemcache (rendezvous)",
    version=installed("pymemcache"),
    build=_build,
    absent=missing("pymemcache"),
    documented=_documented,
)
