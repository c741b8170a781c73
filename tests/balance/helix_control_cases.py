"""Random partitions, outages and rebalances under Helix, as one JSON object each, for Helix's own controller.

Each kind has a function that draws a case, and one that gives the answer of our modules.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any

from apportion import Node, Topology
from apportion.balance.helix import (
    Delay,
    Limit,
    StateTransition,
    Wanted,
    admitted,
    crush,
    crushed,
    delayed,
    model_of,
    states,
)

Case = dict[str, Any]

# The first six have one hash in Java, two by two or four by four; the next are out of order for Python.
NAMES = [
    "Aa",
    "BB",
    "AaAa",
    "AaBB",
    "BBAa",
    "\uff21",
    "\N{GRINNING FACE}",
    "é",
    *(f"n_{number}" for number in range(9)),
]
MODELS = ["MasterSlave", "LeaderStandby", "OnlineOffline"]
STRATEGIES = {"CrushRebalanceStrategy": crush, "CrushEdRebalanceStrategy": crushed}
MINUTE_MS = 60_000
KINDS = {"recovery": "RECOVERY_BALANCE", "load": "LOAD_BALANCE", "any": "ANY"}
SCOPES = {"cluster": "CLUSTER", "resource": "RESOURCE", "node": "INSTANCE"}


def random_states(random: Random) -> Case:
    """Return one partition: its nodes that are listed, live, switched off, present and on their way."""
    nodes = random.sample(NAMES, random.randint(1, 9))
    live = _some(random, nodes, [0, 0.5, 0.8, 1, 1])
    model = random.choice(MODELS)
    return {
        "ask": "states",
        "nodes": nodes,
        "model": model,
        "list": random.sample(nodes, min(len(nodes), random.choice([0, 1, 2, 3, 3, 3, 4, 5]))),
        "live": live,
        "disabled": _some(random, nodes, [0, 0, 0, 0.2, 0.5, 1]),
        "current": _current(random, random.choice([live, live, nodes]), model, most=6),
        "coming": _some(random, nodes, [0, 0, 0.2, 0.4]),
        "zones": random.choice([None, None, {node: random.choice("xyz") for node in nodes if random.random() < 0.9}]),
    }


def our_states(case: Case) -> dict[str, str]:
    """Return our answer to a case of `random_states`."""
    return states(
        case["list"],
        live=case["live"],
        disabled=case["disabled"],
        current=case["current"],
        coming=case["coming"],
        model=case["model"],
        zones=case["zones"],
    )


def has_one_order(case: Case) -> bool:
    """Whether Helix itself orders the leaving nodes: with several of them on their way, a hash table decides."""
    return sum(node not in case["list"] and node not in case["current"] for node in case["coming"]) <= 1


def random_delay(random: Random) -> Case:
    """Return a resource on a cluster where some nodes are down or switched off, since a known time or not."""
    nodes = random.sample(NAMES, random.randint(1, 9))
    live = _some(random, nodes, [0, 0.5, 0.8, 0.8, 1])
    now, is_zoned = 1000 * MINUTE_MS, random.random() < 0.7
    replicas = random.randint(1, 4)
    return {
        "ask": "delay",
        "nodes": [
            {
                "id": node,
                "zone": random.choice("xyz") if is_zoned else None,
                "weight": random.choice([500, 1000, 1000, 2000]),
                "exempt": random.random() < 0.15,
                "offline": None if node in live else random.choice([None, *([_time(random, now)] * 4)]),
                "disabled": random.choice([None, *([_time(random, now)] * 4)]),
            }
            for node in nodes
        ],
        "live": live,
        "disabled": _some(random, nodes, [0, 0, 0.3, 1]),
        "now": now,
        "delay": random.choice([0, 5, 20, 20, 20]) * MINUTE_MS,
        "ended": random.choice([None, None, _time(random, now)]),
        "resource": random.choice(["TestDB", "orders", "f5a5a608"]),
        "replicas": replicas,
        "least": random.randint(0, replicas),
        "by": random.choice(sorted(STRATEGIES)),
        "partitions": [f"p{number}" for number in range(random.randint(1, 9))],
    }


def our_delay(case: Case) -> Case:
    """Return our answer to a case of `random_delay`: the active nodes, the times of change, and the lists."""
    down: dict[str, float] = {}
    up = [node for node in case["live"] if node not in case["disabled"]]
    for node in case["nodes"]:
        since = [] if node["offline"] is None else [node["offline"]]
        if node["id"] in case["disabled"] and node["disabled"] is not None:
            since.append(node["disabled"])
        if since and node["id"] not in up:
            down[node["id"]] = min(since)
    exempt = [node["id"] for node in case["nodes"] if node["exempt"]]
    delay = Delay(case["delay"], exempt=exempt, ended_at=case["ended"])
    active = delay.active(live=up, down_since=down, now=case["now"])
    said: Case = {"active": sorted(active, key=_java_order), "next": delay.next_at(down, now=case["now"])}
    return said if not up else said | {"lists": _lists(case, up, active)}


def _lists(case: Case, up: Sequence[str], active: frozenset[str]) -> dict[str, list[str]]:
    nodes = Topology(
        Node(node["id"], zone=() if node["zone"] is None else (node["zone"],), weight=node["weight"] / 1000)
        for node in case["nodes"]
    )
    # Helix asks a strategy for no more replicas than nodes are active, for both.
    replicas = min(case["replicas"], len(active))
    on_live, on_active = (
        STRATEGIES[case["by"]](case["resource"], case["partitions"], replicas, nodes, live=live)
        for live in (up, active)
    )
    kept = delayed(
        on_live.preference_lists, on_active.preference_lists, live=up, replicas=case["replicas"], least=case["least"]
    )
    return {partition: list(listed) for partition, listed in kept.items()}


def random_kept(random: Random) -> Case:
    """Return two lists for each of a few partitions, of any nodes, also lists that no strategy would make."""
    partitions = [str(number) for number in range(random.randint(0, 4))]
    on_live, on_active = (
        {partition: random.sample(NAMES, random.randint(0, 5)) for partition in partitions} for _ in range(2)
    )
    live, replicas, least = _some(random, NAMES, [0, 0.3, 0.5, 1]), random.randint(0, 5), random.randint(0, 5)
    given = {"on_live": on_live, "on_active": on_active, "live": live, "replicas": replicas, "least": least}
    return {"ask": "kept"} | given


def our_kept(case: Case) -> dict[str, list[str]]:
    """Return our answer to a case of `random_kept`."""
    found = delayed(**{name: given for name, given in case.items() if name != "ask"})
    return {partition: list(listed) for partition, listed in found.items()}


def random_throttle(random: Random) -> Case:
    """Return resources that change, with limits. With shared limits, only the first resource has changes under way.

    Helix charges changes under way as it comes to each resource, and would let the first take a later one's share. We
    differ from Helix only in that.
    """
    nodes = random.sample(NAMES, random.randint(1, 8))
    live = _some(random, nodes, [0, 0.8, 0.8, 1, 1])
    disabled = _some(random, nodes, [0, 0, 0, 0.3])
    limits = [
        {"scope": scope, "kind": kind, "most": random.choice([0, 1, 1, 2, 3, 5])}
        for scope in SCOPES
        for kind in KINDS
        if random.random() < 0.25
    ]
    is_shared = any(limit["scope"] != "resource" for limit in limits)
    resources = [
        _resource(random, f"r{number}", nodes, live, disabled, can_be_under_way=not (number and is_shared))
        for number in range(random.choice([1, 1, 2, 3]))
    ]
    most_errors = random.choice([None, None, 0, 2])
    given = {"nodes": nodes, "live": live, "disabled": disabled, "limits": limits, "most_errors": most_errors}
    return {"ask": "throttle"} | given | {"resources": resources}


def _resource(
    random: Random,
    name: str,
    nodes: Sequence[str],
    live: Sequence[str],
    disabled: Sequence[str],
    *,
    can_be_under_way: bool,
) -> Case:
    model = random.choice(MODELS)
    replicas = random.randint(1, 4)
    found: Case = {"resource": name, "model": model, "replicas": replicas}
    found |= {"least": random.choice([None, None, 0, 1, 2, 3]), "under_way": []}
    found |= {"current": {}, "target": {}, "lists": {}, "disabled": {}}
    for partition in random.sample(["0", "1", "2", "10", "Aa", "BB"], random.randint(1, 5)):
        listed = random.sample(nodes, min(random.choice([replicas] * 8 + [0, 1]), len(nodes), replicas))
        current = _current(random, live, model, most=4)
        off = _some(random, nodes, [0, 0, 0, 0.3])
        under_way = _under_way(random, model, live, current) if can_be_under_way else {}
        target = states(listed, live=live, disabled={*disabled, *off}, current=current, coming=under_way, model=model)
        found["lists"][partition], found["current"][partition] = listed, current
        found["disabled"][partition] = off
        found["target"][partition] = target if random.random() < 0.8 else _changed(random, target, model)
        found["under_way"] += [{"partition": partition} | change for change in under_way.values()]
    return found


def _under_way(random: Random, model: str, live: Sequence[str], current: Mapping[str, str]) -> dict[str, Case]:
    """Return steps under way by node; now and then one that has been taken since, or is of another state."""
    found = {}
    for node in _some(random, live, [0, 0, 0.3]):
        source = random.choice([current.get(node, "OFFLINE")] * 5 + [*model_of(model).serving])
        target = random.choice([*model_of(model).serving, "OFFLINE", "DROPPED"])
        found[node] = {"node": node, "source": source, "target": target}
    return found


def _changed(random: Random, target: Mapping[str, str], model: str) -> dict[str, str]:
    """Return other targets, of which one leads at most; a node may be without one."""
    kind = model_of(model)
    found = {node: random.choice([state, *kind.states]) for node, state in target.items() if random.random() < 0.8}
    leading = [node for node, state in found.items() if kind.has_leader and state == kind.top]
    return found | dict.fromkeys(leading[1:], kind.rest)


def our_changes(case: Case) -> list[list[str]]:
    """Return the changes that we admit in a case of `random_throttle`."""
    wanted = [
        Wanted(
            **{name: given for name, given in each.items() if name not in ("replicas", "under_way")},
            under_way=[StateTransition(resource=each["resource"], **change) for change in each["under_way"]],
        )
        for each in case["resources"]
    ]
    limits = [Limit(**limit) for limit in case["limits"]]
    most_errors = {} if case["most_errors"] is None else {"most_errors": case["most_errors"]}
    found = admitted(wanted, limits=limits, live=case["live"], disabled=case["disabled"], **most_errors)
    return [[each.resource, each.partition, each.node, each.source, each.target] for each in found]


def asked(case: Case) -> Case:
    """Return a case of `random_throttle` in Helix's words."""
    limits = [limit | {"scope": SCOPES[limit["scope"]], "kind": KINDS[limit["kind"]]} for limit in case["limits"]]
    return case | {"limits": limits}


def has_one_order_of_changes(case: Case) -> bool:
    """Whether Helix's order of the changes of each partition is one.

    It orders two of the same state by their places where both are listed and by their names otherwise, which can go
    in a circle; without a list it has the order of a hash table.
    """
    return all(
        _is_one_order(each["lists"][partition], nodes)
        for each in case["resources"]
        for partition in each["target"]
        for nodes in _by_step(each, partition)
    )


def _by_step(resource: Case, partition: str) -> list[set[str]]:
    """Return the nodes of a partition that go to the same state, for each; without a list, all that go anywhere."""
    kind, current = model_of(resource["model"]), resource["current"][partition]
    found: dict[str, set[str]] = {}
    for node, state in (dict.fromkeys(current, "DROPPED") | resource["target"][partition]).items():
        step = kind.step(current.get(node, "OFFLINE"), state)
        if step != current.get(node):
            found.setdefault(step, set()).add(node)
    return [*found.values()] if resource["lists"][partition] else [set().union(*found.values())]


def _is_one_order(listed: Sequence[str], nodes: set[str]) -> bool:
    if not listed:
        return len(nodes) < 2
    return not any(
        _java_order(second) < _java_order(other) < _java_order(first)
        for first, second in combinations([node for node in listed if node in nodes], 2)
        for other in nodes.difference(listed)
    )


def _current(random: Random, nodes: Sequence[str], model: str, *, most: int) -> dict[str, str]:
    """Return states of some nodes; now and then two lead, and replicas are in ERROR or still DROPPED."""
    kind = model_of(model)
    likely = [kind.rest] * 6 + ["OFFLINE"] * 3 + random.choice([[], ["ERROR"], ["ERROR"] * 9, [kind.top, "DROPPED"]])
    holders = random.sample(nodes, random.randint(0, min(most, len(nodes))))
    found = {node: random.choice(likely) for node in holders}
    if holders and random.random() < 0.6:
        found[holders[-1]] = kind.top
    return found


def _time(random: Random, now: int) -> int:
    """Return a time about `now`, to come too, or `now` itself: a delay may end in it."""
    return now + random.choice([-40, -30, -20, -20, -15, -10, -5, -1, 0, 3]) * MINUTE_MS


def _some(random: Random, nodes: Sequence[str], shares: Sequence[float]) -> list[str]:
    share = random.choice(shares)
    return [node for node in nodes if random.random() < share]


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be")
