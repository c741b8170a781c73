"""Cassandra's ring of 100 nodes, 150 tokens each: who owns a token, and who owns a key, beside the driver's own map.

By token we ask `Cassandra.owner_at(token + 2**63)`, the driver `TokenMap.get_replicas` with the token made into
its object beforehand. By key we ask `Cassandra.route`, the driver makes a token of the key and then asks its map.
"""

from collections.abc import Callable, Sequence
from functools import partial

from apportion.placement.layouts.cassandra import Cassandra, token
from bench.clock import race, speed_ratio, spread
from bench.contender import NotSane
from bench.fleet import contiguous_keys, node_names
from bench.goal import Goal, at_least
from bench.peers import CASSANDRA_DRIVER
from bench.peers.cassandra_driver import token_map
from bench.row import Row, native_row, not_measured

NODES = 100
KEYS = 20_000
ROUNDS = 15
UNIT = "x cassandra-driver"
GOAL = at_least(12, UNIT)
BY_TOKEN, BY_KEY = "token -> owner", "key -> token -> owner"


def rows() -> list[Row]:
    """Race both lookups, each against the driver's."""
    if CASSANDRA_DRIVER.absent:
        return [not_measured(_name(what), CASSANDRA_DRIVER.absent, GOAL) for what in (BY_TOKEN, BY_KEY)]
    theirs = token_map(node_names(NODES))
    ours = Cassandra(node_names(NODES), tokens=theirs.tokens)
    owner_at, replicas_of, token_of = ours.owner_at, theirs.replicas_of, theirs.token_of
    keys = contiguous_keys(KEYS)
    data = [key.encode() for key in keys]
    tokens = [token_of(key) for key in data]
    positions = [token(key) + 2**63 for key in keys]
    routed = ours.route_many(keys)
    if not routed == [owner_at(place) for place in positions] == [replicas_of(each)[0] for each in tokens]:
        raise NotSane("the driver and Cassandra's ring name different owners")
    return [
        *_compared(BY_TOKEN, partial(_each, owner_at, positions), partial(_each, replicas_of, tokens), GOAL),
        *_compared(BY_KEY, partial(_each, ours.route, keys), partial(_each_key, replicas_of, token_of, data), GOAL),
    ]


def _compared(what: str, ours: Callable[[], None], theirs: Callable[[], None], goal: Goal) -> list[Row]:
    times = race({"ours": ours, "driver": theirs}, rounds=ROUNDS)
    ours_ns, driver_ns = (spread(times[name], calls=KEYS) for name in ("ours", "driver"))
    ratio = speed_ratio(times["driver"], times["ours"])
    shown = f"{ratio.shown(UNIT)}, {ours_ns.median:.0f} ns"
    driver = Row(name=f"{_name(what)}: driver", value=driver_ns.median, shown=driver_ns.shown("ns", digits=0))
    return [driver, native_row(_name(what), ratio.median, shown, goal)]


def _name(what: str) -> str:
    return f"Cassandra, {NODES} nodes x 150, {what}"


def _each(call: Callable[..., object], arguments: Sequence[object]) -> None:
    for argument in arguments:
        call(argument)


def _each_key(replicas_of: Callable[..., object], token_of: Callable[..., object], keys: Sequence[bytes]) -> None:
    for key in keys:
        replicas_of(token_of(key))
