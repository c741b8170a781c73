"""`optimal` where it is large: 200 nodes and 10 000 partitions x 3, one node lost; a million x 3 on more nodes.

The million on 1000 nodes is measured in a process of its own, whose peak of resident memory counts everything, Python
included. The peak is the system's VmHWM: what `getrusage` says would begin with what the process was forked from.
"""

import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from apportion import Node, Topology
from apportion.balance import optimal
from bench import implementation
from bench.clock import race, spread
from bench.elsewhere import ROOT
from bench.goal import Goal, at_most
from bench.row import Row, native_row, not_measured

ZONES, REPLICAS = 10, 3
MIDDLE = (200, 10_000)
LARGE = (1000, 1_000_000)
HUGE = (10_000, 1_000_000)
ROUNDS = 5
STATUS = Path("/proc/self/status")
PROGRAM = "from bench.figures.optimal_large import measured_large; print(measured_large())"
NAME = f"optimal, {LARGE[0]} nodes in {ZONES} zones, {LARGE[1]} x {REPLICAS}"
HUGE_NAME = f"optimal, {HUGE[0]} nodes in {ZONES} zones, {HUGE[1]} x {REPLICAS}: from nothing"
HUGE_GOAL = at_most(20, "s")
GOALS = {"from nothing": at_most(60, "s"), "one node lost": at_most(5, "s"), "peak memory": at_most(400, "MB")}


def rows() -> list[Row]:
    """Time all three."""
    return [_middle_row(), *_large_rows(), _huge_row()]


def _middle_row() -> Row:
    nodes, partitions = MIDDLE
    before = optimal(partitions, REPLICAS, _topology(nodes))
    fewer = before.topology.without(before.topology.ids[nodes // 2])
    times = race({"ours": lambda: optimal(partitions, REPLICAS, fewer, previous=before)}, rounds=ROUNDS)["ours"]
    lost_ms = spread(times, calls=1_000_000)
    name = f"optimal, {nodes} nodes, {partitions} x {REPLICAS}, one node lost"
    return native_row(name, lost_ms.median, lost_ms.shown("ms"), None)


def _large_rows() -> list[Row]:
    why = "" if implementation.is_native() else "the reference takes too long"
    why = why or ("" if STATUS.exists() else f"this system has no {STATUS}")
    if why:
        return [not_measured(f"{NAME}: {what}", why, goal) for what, goal in GOALS.items()]
    process = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(process.stdout)
    return [_large_row(what, found[what], goal) for what, goal in GOALS.items()]


def _large_row(what: str, value: float, goal: Goal) -> Row:
    return native_row(f"{NAME}: {what}", value, f"{value:.1f} {goal.unit}", goal)


def _huge_row() -> Row:
    if not implementation.is_native():
        return not_measured(HUGE_NAME, "the reference takes too long", HUGE_GOAL)
    nodes, partitions = HUGE
    topology = _topology(nodes)
    start = perf_counter()
    optimal(partitions, REPLICAS, topology)
    took_s = perf_counter() - start
    return native_row(HUGE_NAME, took_s, f"{took_s:.1f} s", HUGE_GOAL)


def measured_large() -> str:
    """Return the cost of the million in this process, as JSON."""
    nodes, partitions = LARGE
    topology = _topology(nodes)
    start = perf_counter()
    before = optimal(partitions, REPLICAS, topology)
    full_s, start = perf_counter() - start, perf_counter()
    optimal(partitions, REPLICAS, topology.without(topology.ids[nodes // 2]), previous=before)
    lost_s = perf_counter() - start
    return json.dumps({"from nothing": full_s, "one node lost": lost_s, "peak memory": _peak_mb()})


def _peak_mb() -> float:
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:"))


def _topology(nodes: int) -> Topology:
    return Topology([Node(f"node-{number:04}", zone=(f"zone-{number % ZONES}",)) for number in range(nodes)])
