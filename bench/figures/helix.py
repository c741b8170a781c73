"""CRUSH as in Helix, 1000 partitions x 3 on 50 nodes in 5 zones, beside Helix itself in a warm Java process.

Both are asked in turn, Java for a median by its own clock, without the pipe between. Their answers are compared first.
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter_ns

from apportion import Node, Topology, balance
from bench.clock import speed_ratio, spread
from bench.contender import NotSane
from bench.goal import at_most
from bench.jvm import VERSIONS, Absent, Oracle, oracle
from bench.row import Row, native_row, not_measured

NODES, ZONES, PARTITIONS, REPLICAS = 50, 5, 1000, 3
CALLS, ROUNDS, WARM_UP = 15, 7, 200
STRATEGIES = {"helix.crush": "CrushRebalanceStrategy", "helix.crushed": "CrushEdRebalanceStrategy"}
GOALS = {"helix.crush": at_most(0.5, "x Java"), "helix.crushed": None}


def rows() -> list[Row]:
    """Race each strategy; `helix.crush` has a goal."""
    try:
        with oracle() as java:
            return [_row(java, name) for name in STRATEGIES]
    except Absent as absent:
        return [not_measured(_name(name), str(absent), GOALS[name]) for name in STRATEGIES]


def _row(java: Oracle, name: str) -> Row:
    ids, partitions = [f"localhost_{12000 + each}" for each in range(NODES)], [f"TestDB_{n}" for n in range(PARTITIONS)]
    topology = Topology([Node(node_id, zone=(f"zone{place % ZONES}",)) for place, node_id in enumerate(ids)])
    spec = balance.get(name)
    case = {
        "strategy": STRATEGIES[name],
        "resource": "TestDB",
        "replicas": REPLICAS,
        "nodes": [{"id": node.id, "zone": node.zone[0], "weight": None} for node in topology],
        "live": ids,
        "partitions": partitions,
    }

    def ours() -> dict[str, list[str]]:
        lists = spec("TestDB", partitions, REPLICAS, topology).preference_lists
        return {partition: list(listed) for partition, listed in lists.items()}

    if java.ask(case)["answer"] != ours():
        raise NotSane(f"{name} answers otherwise than Helix")
    java.median_ns(case, calls=1, warmup=WARM_UP)
    theirs_ns, ours_ns = [], []
    for _ in range(ROUNDS):
        theirs_ns.append(java.median_ns(case, calls=CALLS))
        ours_ns.append(_median_ns(lambda: spec("TestDB", partitions, REPLICAS, topology).preference_lists))
    ratio = speed_ratio(ours_ns, theirs_ns)
    ours_ms, java_ms = spread(ours_ns, calls=1_000_000), spread(theirs_ns, calls=1_000_000)
    shown = f"{ratio.shown('x Java', digits=2)}, {ours_ms.shown('ms', digits=2)} beside {java_ms.shown('ms', digits=2)}"
    return native_row(_name(name), ratio.median, shown, GOALS[name])


def _median_ns(call: Callable[[], object]) -> int:
    times = []
    for _ in range(CALLS):
        start = perf_counter_ns()
        call()
        times.append(perf_counter_ns() - start)
    return int(median(times))


def _name(name: str) -> str:
    return f"{name}, {PARTITIONS} x {REPLICAS} on {NODES} nodes, time of warm Java ({VERSIONS['helix']})"
