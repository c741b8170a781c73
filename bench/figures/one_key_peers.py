"""One `str` key with the packages that are no match in speed, on few keys: tooz, pymemcache, jump-consistent-hash,
cassandra-driver. Information: our goals are over the textbook ring, which is faster than most of them.

Warm: 500 keys contiguous in memory, over and over. pymemcache asks every node, and has no row for 1000 of them.
"""

from bench.contender import Contender
from bench.figures.one_key import routes_of, warm
from bench.fleet import contiguous_keys
from bench.ours import RING
from bench.peers import CASSANDRA_DRIVER, JUMP_CONSISTENT_HASH, PYMEMCACHE, TEXTBOOK, TOOZ
from bench.row import Row, not_measured

KEYS = 500
ROUNDS = 7
ALWAYS = (TEXTBOOK, RING, JUMP_CONSISTENT_HASH, CASSANDRA_DRIVER, TOOZ)
CONTENDERS: dict[int, tuple[Contender, ...]] = {10: (*ALWAYS, PYMEMCACHE), 100: (*ALWAYS, PYMEMCACHE), 1000: ALWAYS}


def rows() -> list[Row]:
    """Race all of them for each size of fleet."""
    found: list[Row] = []
    for nodes, contenders in CONTENDERS.items():
        name = f"one key of {KEYS}, {nodes} nodes"
        found += warm(routes_of(contenders, nodes), contiguous_keys(KEYS), name, rounds=ROUNDS)
        found += [not_measured(f"{name}: {each.name}", each.absent) for each in contenders if each.absent]
    return found
