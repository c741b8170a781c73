"""Memory of a ring's table: what eight rings of 1000 nodes, 150 tokens each, add to a process, by the token.

Measured as resident memory of a fresh process, from the system, because what Rust allocates no Python tool sees. The
rings share one topology; each has answered once by every call, so that nothing lies ahead; two more are built before
the first look, so that what building needs for a moment is not counted.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from apportion import Ring, Topology
from bench.clock import Spread
from bench.elsewhere import ROOT
from bench.fleet import contiguous_keys, equal_fleet
from bench.goal import at_most
from bench.row import Row, native_row, not_measured

NODES, TOKENS = 1000, 150_000
RINGS, RINGS_BEFORE = 8, 2
PROCESSES = 3
STATM = Path("/proc/self/statm")
GOAL = at_most(16, "bytes a token")
NAME = f"memory of a ring's table, {NODES} nodes x 150"
PROGRAM = "from bench.figures.memory import grown_bytes; print(grown_bytes())"


def rows() -> list[Row]:
    """Ask some processes."""
    if not STATM.exists():
        return [not_measured(NAME, f"this system has no {STATM}", GOAL)]
    found = [table_bytes() / TOKENS for _ in range(PROCESSES)]
    token_bytes = Spread(median=median(found), least=min(found), most=max(found))
    return [native_row(NAME, token_bytes.median, token_bytes.shown("bytes a token"), GOAL)]


def table_bytes() -> float:
    """Return the bytes of one ring, from the growth of a fresh process with several."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(process.stdout) / RINGS


def grown_bytes() -> int:
    """Return how many bytes the rings add to this process."""
    topology = equal_fleet(NODES)
    kept = [_used(topology) for _ in range(RINGS_BEFORE)]
    before = _resident_bytes()
    kept += [_used(topology) for _ in range(RINGS)]
    return _resident_bytes() - before


def _used(topology: Topology) -> Ring:
    ring = Ring(topology)
    ring.route("tenant-1")
    ring.route_many(contiguous_keys(100))
    ring.route_indexes(contiguous_keys(100))
    ring.preference("tenant-1", 3)
    return ring


def _resident_bytes() -> int:
    gc.collect()
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
