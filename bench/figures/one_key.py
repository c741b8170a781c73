"""One `str` key per call, in 10, 100 and 1000 nodes: the lookup as a program that serves requests makes it.

Ratios are speeds over the textbook ring's, in one interleaved run; the loop around the calls is in both. Warm: 50 000
keys, contiguous in memory and shuffled, each round after one of the same contender that is not measured. After the
others: the same with no such round, so the caches are full of another's ring. Cold: single calls, each after the caches
of the CPU's own core were filled with something else; a cache shared with other machines cannot be emptied from here.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from operator import call

from bench.clock import Turn, race, speed_ratio, spread
from bench.contender import Contender, Route
from bench.fleet import contiguous_keys, node_names, shuffled_keys
from bench.goal import Goal, at_least
from bench.ours import JUMP, RENDEZVOUS, RING, SLOTS
from bench.peers import TEXTBOOK, UHASHRING, UHASHRING_MMH3
from bench.row import Row, native_row, not_measured

KEYS = 50_000
ROUNDS = 9
COLD_CALLS = 300
EVICTING_BYTES = 16 * 2**20
RINGS = (TEXTBOOK, RING, UHASHRING, UHASHRING_MMH3)
# Rendezvous asks every node, so only a small fleet is its place.
ALSO: dict[int, tuple[Contender, ...]] = {10: (RENDEZVOUS,), 100: (SLOTS, JUMP), 1000: ()}
GOALS = {100: at_least(5, "x T"), 1000: at_least(9, "x T")}
COLD_NODES = 100
ORDERS = {"contiguous": contiguous_keys, "shuffled": shuffled_keys}


def rows() -> list[Row]:
    """Measure warm lookups for each size and order of keys, then cold ones."""
    found: list[Row] = []
    for nodes, others in ALSO.items():
        routes = routes_of((*RINGS, *others), nodes)
        for order, keys_of in ORDERS.items():
            name = f"one key, {nodes} nodes, {order}"
            goal = GOALS.get(nodes) if order == "contiguous" else None
            found += warm(routes, keys_of(KEYS), name, rounds=ROUNDS, goal=goal)
        keys, name = contiguous_keys(KEYS), f"one key, {nodes} nodes, contiguous, after the others"
        found += compared(race(_turns(routes, keys), rounds=ROUNDS), name, calls=KEYS, goal=None)
    absent = [not_measured(f"one key: {each.name}", each.absent) for each in RINGS if each.absent]
    return found + _cold(routes_of(RINGS, COLD_NODES)) + absent


def routes_of(contenders: tuple[Contender, ...], nodes: int) -> dict[str, Route]:
    """Return the lookup of each contender that can run here."""
    return {contender.name: contender.build(node_names(nodes)) for contender in contenders if not contender.absent}


def warm(
    routes: Mapping[str, Route], keys: list[str], name: str, *, rounds: int, goal: Goal | None = None
) -> list[Row]:
    """Race lookups over the same keys; the goal is our ring's."""
    times = race(_turns(routes, keys), rounds=rounds, before=call)
    return compared(times, name, calls=len(keys), goal=goal)


def _turns(routes: Mapping[str, Route], keys: list[str]) -> dict[str, Turn]:
    return {contender: partial(_each, route, keys) for contender, route in routes.items()}


def compared(times: Mapping[str, list[int]], name: str, *, calls: int, goal: Goal | None) -> list[Row]:
    """Return a row of each contender: the textbook ring in nanoseconds, the others in its multiples."""
    found = []
    for contender, times_ns in times.items():
        ratio, call_ns = speed_ratio(times[TEXTBOOK.name], times_ns), spread(times_ns, calls=calls)
        row = f"{name}: {contender}"
        if contender == TEXTBOOK.name:
            found.append(Row(name=row, value=call_ns.median, shown=call_ns.shown("ns", digits=0)))
        else:
            shown = f"{ratio.shown('x T', digits=2)}, {call_ns.median:.0f} ns"
            found.append(native_row(row, ratio.median, shown, goal if contender == RING.name else None))
    return found


def _each(route: Route, keys: list[str]) -> None:
    for key in keys:
        route(key)


def _cold(routes: Mapping[str, Route]) -> list[Row]:
    # Ones, because memory of zeros that nobody wrote is one page of the system, and reading it evicts nothing.
    evicting = b"\x01" * EVICTING_BYTES
    keys = shuffled_keys(COLD_CALLS + 1)
    turns = {name: partial(_next, route, iter(keys)) for name, route in routes.items()}
    times = race(turns, rounds=COLD_CALLS, before=lambda _turn: evicting.count(0))
    return compared(times, f"one key, {COLD_NODES} nodes, cold", calls=1, goal=None)


def _next(route: Route, keys: Iterator[str]) -> None:
    route(next(keys))
