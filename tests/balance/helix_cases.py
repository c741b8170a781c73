"""Random resources of Helix, as one JSON object each, for a driver of Helix's own strategies.

The fields are those of the golden cases in `vectors/helix`, and `previous`: the holder and state of each replica.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

from apportion import Node, Topology, balance

Case = dict[str, Any]

CRUSH, CRUSHED, MULTIROUND, AUTO = STRATEGIES = (
    "CrushRebalanceStrategy",
    "CrushEdRebalanceStrategy",
    "MultiRoundCrushRebalanceStrategy",
    "AutoRebalanceStrategy",
)
LETTERS = "abz-09é節\uff5e🙂"
# Java gives each of these four the same hash.
# The Java hash of a resource seeds CrushED; that of f5a5a608 is 0.
SAME_HASH = ("AaAa", "AaBB", "BBAa", "BBBB")
# The node of each partition of `with_one_hash` by zones, as helix-core 2.0.1 gave it, when asked in a new process.
# Found by ORACLE_SEED=2110724045, where a process was asked for both.
ONE_HASH = {("x", "y", "x"): "Aa Aa BB Aa BB Aa", (None, None, None): "BB Aa Aa BB BB BB"}


def histories(random: Random, assign: Callable[[Case], Case], count: int) -> Iterator[tuple[Case, Case]]:
    """Yield so many resources with the answer of `assign`; half of them continue from the one before."""
    made = 0
    while made < count:
        case = random_resource(random)
        for _ in range(random.choice([1, 1, 2, 3])):
            said = assign(case)
            yield case, said
            made += 1
            if made == count or "error" in said:
                break
            case = moved_on(random, case, said)


def random_resource(random: Random) -> Case:
    """Return a resource on a cluster, of which some nodes may be down."""
    strategy = random.choice(STRATEGIES)
    # It places each replica anew for every weight that changes: that takes seconds for large ones, in Java too.
    is_slow = strategy == MULTIROUND
    count = random.choice([3, 3, 6, 6, 9, 9, 12, 12, 20, 20] + [50, 100] * (not is_slow))
    zones = random.choice([None, 3, 4, 5, 10])
    weights = random.choice([[None], [None], [None], [1000], [500, 1000, 2000, 3000], [1, 1000], [0, 1000, 1000, 1000]])
    start = random.choice(["localhost_12", "node", "", _name(random)])
    nodes = [
        {
            "id": f"{start}{number:03}",
            "zone": None if zones is None else f"zone{_zone(random, number, zones)}",
            "weight": random.choice(weights),
        }
        for number in range(count)
    ]
    sizes = [1, 8, 8, 20, 20] if is_slow else [1, 8, 8, 20, 20, 20, 100, 100, *[1000][: count // 50]]
    nodes[0]["weight"] = nodes[0]["weight"] or weights[-1]
    return {
        "strategy": strategy,
        "resource": random.choice(["f5a5a608", "TestDB", _name(random), _name(random)]),
        "replicas": random.choice([1, 2, 2, 3, 3, 3, 4, 5]),
        "nodes": nodes,
        "live": _live(random, nodes),
        "partitions": _partitions(random, random.choice(sizes)),
    }


def with_one_hash(zones: Sequence[str | None]) -> Case:
    """Return a resource of three nodes: the first is down, and a token of the circle is one of both others."""
    nodes = [{"id": name, "zone": zone, "weight": None} for name, zone in zip(["0", "Aa", "BB"], zones, strict=True)]
    names = [f"p{number}" for number in range(6)]
    given = {"strategy": CRUSHED, "resource": "orders", "replicas": 1, "partitions": names}
    return given | {"nodes": nodes, "live": ["Aa", "BB"]}


def moved_on(random: Random, case: Case, said: Case) -> Case:
    """Return the resource after nodes went down or came back, held as it was assigned, but for a few replicas.

    Nodes that are down hold nothing: Helix takes the current state of live ones alone.
    """
    ids, strange = [node["id"] for node in case["nodes"]], ["MASTER", "SLAVE", "OFFLINE", "ERROR"]
    live = _live(random, case["nodes"])
    noise = random.choice([0, 0, 0.1, 1])
    previous: dict[str, dict[str, str]] = {}
    for partition, listed in said["answer"].items():
        held = {
            (random.choice(ids) if random.random() < noise else node_id): (
                random.choice(strange) if random.random() < noise else ("SLAVE" if place else "MASTER")
            )
            for place, node_id in enumerate(listed)
        }
        previous[partition] = {node_id: state for node_id, state in held.items() if node_id in live}
    return case | {"previous": previous, "live": live}


def _live(random: Random, nodes: Sequence[Case]) -> list[str]:
    """Return the ids of all nodes or of all but a few; one at least that weighs something, where there is one."""
    ids = [node["id"] for node in nodes]
    heavy = [node["id"] for node in nodes if node["weight"] != 0] or ids
    dead = random.sample(ids, min(random.choice([0, 0, 1, 1, 2, 5]), len(ids) - 1))
    return [node_id for node_id in ids if node_id not in dead or (node_id == heavy[0] and set(heavy) <= set(dead))]


def _zone(random: Random, number: int, zones: int) -> int:
    """Return the zone of a node: in turn, and now and then another, so that zones differ in size."""
    return random.randrange(zones) if random.random() < 0.1 else number % zones


def _name(random: Random) -> str:
    return random.choice("rRé") + "".join(random.choices(LETTERS, k=random.randint(0, 4)))


def _partitions(random: Random, count: int) -> list[str]:
    start = random.choice(["TestDB_", "TestDB_", _name(random) + "_"])
    names = [f"{start}{number}" for number in range(count)]
    if random.random() < 0.1:
        names[: len(SAME_HASH)] = SAME_HASH[:count]
    if random.random() < 0.3:
        random.shuffle(names)
    return names


SPECS = {CRUSH: "helix.crush", CRUSHED: "helix.crushed", MULTIROUND: "helix.multiround", AUTO: "helix.auto"}
spec = cache(balance.get)


def ours(case: Case) -> dict[str, list[str]]:
    """Return our preference lists of a case, but for empty ones."""
    nodes = [
        Node(
            node["id"],
            zone=() if node["zone"] is None else (node["zone"],),
            weight=1.0 if node["weight"] is None else node["weight"] / 1000,
        )
        for node in case["nodes"]
    ]
    options = {"previous": case["previous"]} if case["strategy"] == AUTO and "previous" in case else {}
    found = spec(SPECS[case["strategy"]])(
        case["resource"], case["partitions"], case["replicas"], Topology(nodes), live=case["live"], **options
    )
    return filled(found.preference_lists)


def filled(lists: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the lists that are not empty: some of Helix's strategies leave the empty ones out."""
    return {partition: list(listed) for partition, listed in lists.items() if listed}
