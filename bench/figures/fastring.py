"""fastring, the fastest peer, one key a call and a million in a list, on 100 and 1000 nodes: beside T and our ring.

It needs Python 3.13. Where this Python is older, `make bench` installs fastring and ourselves for a newer one, if there
is one, and the whole figure is measured by that, T and our ring included. Information: our goals are over T.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from apportion import Ring
from bench import implementation
from bench.clock import race, speed_ratio, spread
from bench.elsewhere import rows_of
from bench.figures.bulk import KEYS as MANY
from bench.figures.one_key import routes_of, warm
from bench.fleet import contiguous_keys, node_names
from bench.ours import RING
from bench.peers import FASTRING, TEXTBOOK
from bench.peers.fastring import LEAST_PYTHON, batch
from bench.row import Row, not_measured

KEYS = 50_000
ROUNDS = 7
ROUNDS_OF_MANY = 3
SIZES = (100, 1000)
NEWER_PYTHON = Path(sys.prefix) / "newer" / "bin" / "python"


def rows() -> list[Row]:
    """Measure it here, or by the newer Python."""
    if not FASTRING.absent:
        return [row for nodes in SIZES for row in (*_one_by_one(nodes), *_many(nodes))]
    if sys.version_info < LEAST_PYTHON and NEWER_PYTHON.exists():
        options = () if implementation.is_native() else ("--reference",)
        return rows_of("fastring", *options, python=str(NEWER_PYTHON))
    return [not_measured(f"fastring, {nodes} nodes", FASTRING.absent) for nodes in SIZES]


def _one_by_one(nodes: int) -> list[Row]:
    routes = routes_of((TEXTBOOK, RING, FASTRING), nodes)
    return warm(routes, contiguous_keys(KEYS), f"{_setting()}, one key, {nodes} nodes", rounds=ROUNDS)


def _many(nodes: int) -> list[Row]:
    names, keys = node_names(nodes), contiguous_keys(MANY)
    textbook = TEXTBOOK.build(names)
    turns: dict[str, Callable[[], object]] = {
        TEXTBOOK.name: lambda: list(map(textbook, keys)),
        RING.name: partial(Ring(names).route_many, keys),
        FASTRING.name: partial(batch(names), keys),
    }
    times = race(turns, rounds=ROUNDS_OF_MANY)
    found = []
    for name, times_ns in times.items():
        ratio, key_ns = speed_ratio(times[TEXTBOOK.name], times_ns), spread(times_ns, calls=MANY)
        shown = f"{ratio.shown('x T', digits=2)}, {key_ns.median:.0f} ns a key"
        found.append(Row(name=f"{_setting()}, 1 M keys -> ids, {nodes} nodes: {name}", value=ratio.median, shown=shown))
    return found


def _setting() -> str:
    return f"{FASTRING.version}, Python {sys.version_info.major}.{sys.version_info.minor}"
