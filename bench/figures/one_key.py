"""One `str` key per call, in 10, 100 and 1000 nodes: the lookup as a program that serves requests makes it.

Ratios are speeds over the textbook ring's, in one interleaved run; the loop around the calls is in both. Warm: 50 000
keys, over and over, contiguous in memory and shuffled. Cold: single calls, each after the caches of the CPU's own core
were filled with something else; a cache shared with other machines cannot be emptied from here.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from bench.clock import race, speed_ratio, spread
from bench.contender import Contender, Route
from bench.fleet import contiguous_keys, node_names, shuffled_keys
from bench.ours import JUMP, RENDEZVOUS, RING, SLOTS
from bench.peers import TEXTBOOK, UHASHRING, UHASHRING_MMH3
from bench.row import Row

KEYS = 50_000
ROUNDS = 15
COLD_CALLS = 500
EVICTING_BYTES = 16 * 2**20
RINGS = (TEXTBOOK, RING, UHASHRING, UHASHRING_MMH3)
# Rendezvous asks every node, so only a small fleet is its place.
ALSO: dict[int, tuple[Contender, ...]] = {10: (RENDEZVOUS,), 100: (SLOTS, JUMP), 1000: ()}
GOAL_NODES, GOAL_RATIO = 100, 0.8


def rows() -> list[Row]:
    """Measure warm lookups for each size and order of keys, then cold ones."""
    found: list[Row] = []
    for nodes, others in ALSO.items():
        routes = _routes((*RINGS, *others), nodes)
        for order, keys in (("contiguous", contiguous_keys(KEYS)), ("shuffled", shuffled_keys(KEYS))):
            times = race({name: partial(_each, route, keys) for name, route in routes.items()}, rounds=ROUNDS)
            found += _compared(times, f"one key, {nodes} nodes, {order}", calls=KEYS, has_goal=nodes == GOAL_NODES)
    return found + _cold(_routes(RINGS, GOAL_NODES))


def _routes(contenders: tuple[Contender, ...], nodes: int) -> dict[str, Route]:
    return {contender.name: contender.build(node_names(nodes)) for contender in contenders}


def _each(route: Route, keys: list[str]) -> None:
    for key in keys:
        route(key)


def _cold(routes: Mapping[str, Route]) -> list[Row]:
    # Ones, because memory of zeros that nobody wrote is one page of the system, and reading it evicts nothing.
    evicting = b"\x01" * EVICTING_BYTES
    keys = shuffled_keys(COLD_CALLS + 1)
    turns: dict[str, Callable[[], object]] = {name: partial(_next, route, iter(keys)) for name, route in routes.items()}
    times = race(turns, rounds=COLD_CALLS, before=partial(evicting.count, 0))
    return _compared(times, f"one key, {GOAL_NODES} nodes, cold", calls=1, has_goal=False)


def _next(route: Route, keys: Iterator[str]) -> None:
    route(next(keys))


def _compared(times: Mapping[str, list[int]], name: str, *, calls: int, has_goal: bool) -> list[Row]:
    found = []
    for contender, times_ns in times.items():
        ratio, call_ns = speed_ratio(times[TEXTBOOK.name], times_ns), spread(times_ns, calls=calls)
        rounds = f"{ratio.least:.2f}..{ratio.most:.2f}"
        is_goal = has_goal and contender == RING.name
        found.append(
            Row(
                name=f"{name}: {contender}",
                value=call_ns.median if contender == TEXTBOOK.name else ratio.median,
                shown=f"{call_ns.median:.0f} ns ({call_ns.least:.0f}..{call_ns.most:.0f})"
                if contender == TEXTBOOK.name
                else f"{ratio.median:.2f} x T ({rounds}), {call_ns.median:.0f} ns",
                goal=f">= {GOAL_RATIO} x T" if is_goal else None,
                met=ratio.median >= GOAL_RATIO if is_goal else None,
            )
        )
    return found
