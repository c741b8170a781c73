"""Ten million Arrow strings to a buffer of indexes, by one thread and by two, against hashing them and nothing else.

The strings are 17 to 24 bytes long, in one array. Hashing alone folds all hashes into one number, and writes nothing.
Figures of the native twin only: the reference takes no Arrow array. A machine of one CPU has no second thread to give.
"""

from array import array
from collections.abc import Callable
from functools import partial
from importlib import import_module
from os import cpu_count
from typing import TYPE_CHECKING

from apportion import Ring, hashers
from bench import implementation
from bench.clock import race, speed_ratio, spread
from bench.contender import NotSane, missing
from bench.fleet import node_names
from bench.goal import at_least, at_most
from bench.row import Row, native_row, not_measured

if TYPE_CHECKING:
    from pyarrow import StringArray

KEYS = 10_000_000
ROUNDS = 7
PREFIX = "customer/orders/"
SIZES = (100, 1000)
PER_KEY, OVER_HASHING, THREADS = at_most(10, "ns a key"), at_most(3.5, "x hashing"), at_least(1.6, "x one thread")
GOALS = {"one thread": PER_KEY, "one thread, over hashing alone": OVER_HASHING, "two threads": THREADS}
ONE, TWO, HASHING = "one thread", "two threads", "hashing"


def rows() -> list[Row]:
    """Measure what can be measured here, and say of the rest why not."""
    if why := _hindrance():
        return [not_measured(_name(nodes, what), why, goal) for nodes in SIZES for what, goal in GOALS.items()]
    keys = keys_of(KEYS)
    return [row for nodes in SIZES for row in _routed(Ring(node_names(nodes)), keys, nodes=nodes)]


def keys_of(count: int) -> "StringArray":
    """Return so many strings in one Arrow array."""
    arrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    numbers = arrow.Array.from_buffers(arrow.int64(), count, [None, arrow.py_buffer(array("q", range(count)))])
    keys: StringArray = compute.binary_join_element_wise(PREFIX, numbers.cast(arrow.string()), "")
    return keys


def route_indexes(ring: Ring, keys: "StringArray", *, threads: int = 1) -> object:
    """Route an Arrow array: the public call, in the one place that knows how it takes one."""
    call: Callable[..., object] = ring.route_indexes
    return call(keys, threads=threads)


def hash_alone(keys: "StringArray") -> object:
    """Hash an Arrow array as the ring hashes it, and look nothing up."""
    folded: Callable[..., object] = import_module("apportion._native").folded
    return folded(hashers.DEFAULT, keys)


def _hindrance() -> str:
    if why := missing("pyarrow"):
        return why
    return "" if implementation.is_native() else "the native twin is not in use"


def _routed(ring: Ring, keys: "StringArray", *, nodes: int) -> list[Row]:
    _check(ring, keys)
    turns: dict[str, Callable[[], object]] = {
        ONE: partial(route_indexes, ring, keys),
        HASHING: partial(hash_alone, keys),
        TWO: partial(route_indexes, ring, keys, threads=2),
    }
    return _compared(race(turns, rounds=ROUNDS), nodes)


def _compared(times: dict[str, list[int]], nodes: int) -> list[Row]:
    per_key = spread(times[ONE], calls=KEYS)
    found = [native_row(_name(nodes, ONE), per_key.median, per_key.shown("ns a key"), PER_KEY)]
    over = speed_ratio(times[ONE], times[HASHING])
    alone_ns = spread(times[HASHING], calls=KEYS).median
    shown = f"{over.shown('x hashing', digits=2)}, which takes {alone_ns:.1f} ns"
    found.append(native_row(_name(nodes, "one thread, over hashing alone"), over.median, shown, OVER_HASHING))
    if (cpu_count() or 1) < 2:
        found.append(not_measured(_name(nodes, TWO), "this machine has one CPU", THREADS))
    else:
        ratio = speed_ratio(times[ONE], times[TWO])
        found.append(native_row(_name(nodes, TWO), ratio.median, ratio.shown("x one thread", digits=2), THREADS))
    return found


def _check(ring: Ring, keys: "StringArray") -> None:
    few = keys.slice(0, 1000)
    if list(ring.route_indexes(few.to_pylist())) != list(memoryview(route_indexes(ring, few))):  # type: ignore[arg-type]
        raise NotSane("an Arrow array is routed otherwise than the list of its strings")


def _name(nodes: int, what: str) -> str:
    return f"10 M Arrow strings -> indexes, {nodes} nodes: {what}"
