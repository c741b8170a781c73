"""Apache Helix's own controller against ours, on fresh random cases: states, delayed rebalance, throttling.

`ORACLE_SEED=7 pytest ...` repeats the cases of a seed. Helix's classes are asked themselves, without ZooKeeper.
"""

import json
import os
from collections import Counter
from random import Random

import pytest

from apportion.balance.helix import model_of
from bench.jvm import Absent, oracle
from tests.balance.helix_control_cases import (
    MODELS,
    asked,
    has_one_order,
    has_one_order_of_changes,
    our_changes,
    our_delay,
    our_kept,
    our_states,
    random_delay,
    random_kept,
    random_states,
    random_throttle,
)
from tests.live.seeds import fresh_seed

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def helix():
    """The driver of Helix's controller."""
    try:
        with oracle() as running:
            yield running
    except Absent as absent:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(absent))


def answer(helix, case):
    """Return what Helix answers; it throws for none of these cases."""
    said = helix.ask(case)
    assert "error" not in said, f"{said}: {json.dumps(case)}"
    return said["answer"]


@pytest.mark.parametrize("name", MODELS)
def test_models_are_those_that_helix_builds_in(helix, name):
    model = model_of(name)
    for replicas in range(7):
        said = answer(helix, {"ask": "model", "model": name, "replicas": replicas})
        assert said["counts"] == model.counts(replicas)
        assert said["states"] == [*model.states]
        assert said["before_top"] == [model.before_top]
        for state in model.states:
            for target in model.states:
                if state != target:
                    assert (said["next"][state][target] or state) == model.step(state, target)


def test_states_are_those_of_helix(helix, record_property):
    seed = fresh_seed("states")
    random, compared, seen = Random(seed), Counter(), Counter()
    while compared.total() < 4000:
        case = random_states(random)
        if not has_one_order(case):
            continue
        said = answer(helix, case)
        assert said == our_states(case), f"seed {seed}: {json.dumps(case)}"
        compared[case["model"]] += 1
        seen.update({*said.values()})
        seen.update(corner for corner, is_so in corners(case).items() if is_so)
    record_property("figures", f"seed {seed}: states identical to Helix {dict(compared)}, among them {dict(seen)}")
    assert set(MODELS) == set(compared)
    assert (
        min(seen[corner] for corner in ("MASTER", "SLAVE", "ONLINE", "OFFLINE", "DROPPED", "ERROR", *corners(case)))
        > 99
    )


def corners(case):
    """Say which corners a partition is in."""
    nodes, live, listed, current = case["nodes"], case["live"], case["list"], case["current"]
    return {
        "nobody live": not live,
        "all switched off": {*nodes} == {*case["disabled"]},
        "nothing listed": not listed,
        "listed is down": not {*listed} <= {*live},
        "held beyond the list": not {*current} <= {*listed},
        "on their way": case["coming"] != [],
        "zones": bool(case["zones"]),
    }


def test_delays_are_those_of_helix(helix, record_property):
    seed = fresh_seed("delays")
    random, compared, seen = Random(seed), 0, Counter()
    while seen["lists"] < 600:
        case = random_delay(random)
        said, ours = answer(helix, case), our_delay(case)
        # With nobody live a strategy of Helix's throws, or lists nobody; ours says that there are no nodes.
        assert {name: said.get(name) for name in ours} == ours, f"seed {seed}: {json.dumps(case)}"
        compared += 1
        seen["lists"] += "lists" in ours
        seen["waited for"] += ours["next"] is not None
        seen["asked to end"] += case["ended"] is not None
    record_property("figures", f"seed {seed}: delays identical to Helix, {compared}, among them {dict(seen)}")
    assert min(seen.values()) > 99


def test_kept_lists_are_those_of_helix(helix, record_property):
    seed = fresh_seed("kept lists")
    random, kept = Random(seed), Counter()
    for _ in range(1000):
        case = random_kept(random)
        said = answer(helix, case)
        assert said == our_kept(case), f"seed {seed}: {json.dumps(case)}"
        for partition, listed in said.items():
            whose = [name for name in ("on_live", "on_active") if case[name][partition] == listed]
            kept[whose[0] if len(whose) == 1 else "either" if whose else "filled up"] += 1
    record_property("figures", f"seed {seed}: kept lists identical to Helix, 1000, of which {dict(kept)}")
    assert min(kept[name] for name in ("on_live", "on_active", "filled up")) > 99


def test_what_is_admitted_is_what_helix_lets_through(helix, record_property):
    seed = fresh_seed("throttles")
    random, compared, seen = Random(seed), 0, Counter()
    while compared < 1500:
        case = random_throttle(random)
        if not has_one_order_of_changes(case):
            continue
        said, ours = answer(helix, asked(case)), our_changes(case)
        assert sorted(said) == sorted(ours), f"seed {seed}: {json.dumps(case)}"
        compared += 1
        unlimited = our_changes(case | {"limits": []})
        seen["some held back"] += 0 < len(ours) < len(unlimited)
        seen["all held back"] += len(ours) == 0 < len(unlimited)
        seen["changes"] += len(ours)
        seen["under way"] += any(each["under_way"] for each in case["resources"])
        seen["switched off"] += bool(case["disabled"])
    record_property("figures", f"seed {seed}: admitted as by Helix, {compared}, among them {dict(seen)}")
    assert min(seen.values()) > 99


def test_helix_exceeds_a_limit_of_the_cluster_by_what_is_under_way_for_a_later_resource(helix):
    change = {"partition": "0", "node": "b", "source": "OFFLINE", "target": "SLAVE"}
    resource = {
        "model": "MasterSlave",
        "replicas": 2,
        "least": None,
        "current": {"0": {"a": "MASTER"}},
        "target": {"0": {"a": "MASTER", "b": "SLAVE"}},
        "lists": {"0": ["a", "b"]},
        "disabled": {},
    }
    case = {
        "ask": "throttle",
        "nodes": ["a", "b"],
        "live": ["a", "b"],
        "disabled": [],
        "limits": [{"scope": "cluster", "kind": "any", "most": 1}],
        "most_errors": None,
        "resources": [
            resource | {"resource": "r0", "under_way": []},
            resource | {"resource": "r1", "under_way": [change]},
        ],
    }
    assert [["r0", "0", "b", "OFFLINE", "SLAVE"]] == answer(helix, asked(case))
    assert [] == our_changes(case)
