"""Strategies of Apache Helix itself against ours, on fresh random resources; the seed is printed.

`ORACLE_SEED=7 pytest ...` repeats the resources of a seed. Where Helix throws, no answer of ours is compared.
"""

import json
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from bench.jvm import Absent, oracle
from tests.balance.helix_cases import MULTIROUND, ONE_HASH, STRATEGIES, filled, histories, ours, with_one_hash
from tests.live.seeds import fresh_seed

pytestmark = pytest.mark.live

GOLDEN = Path(__file__).parents[1] / "balance/vectors/helix/cases.jsonl"


@pytest.fixture(scope="module")
def helix():
    """The driver of Helix's strategies."""
    try:
        with oracle() as running:
            yield running
    except Absent as absent:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(absent))


def test_the_driver_says_what_the_golden_cases_say(helix):
    cases = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    for case in cases:
        asked = {name: given for name, given in case.items() if name != "preference_lists"}
        assert case["preference_lists"] == helix.ask(asked)["answer"], asked["resource"]
    assert 132 == len(cases)


@pytest.mark.parametrize("resources", [800, pytest.param(2400, marks=pytest.mark.soak)])
def test_lists_are_those_of_helix(helix, resources, record_property):
    seed, compared, thrown = fresh_seed("resources"), Counter(), Counter()
    for case, said in histories(Random(seed), helix.ask, resources):
        if "error" in said:
            thrown[case["strategy"]] += 1
            continue
        assert filled(said["answer"]) == ours(case), f"seed {seed}: {json.dumps(case)}"
        compared[case["strategy"]] += 1
    record_property("figures", f"seed {seed}: identical to Helix {dict(compared)}; {dict(thrown)} thrown by Helix")
    assert set(STRATEGIES) == {strategy for strategy, count in compared.items() if count > resources / 20}
    # It throws where it finds no zone for a replica, and wherever there are no zones at all.
    assert {MULTIROUND} == set(thrown)
    assert 5 / 6 * resources <= compared.total()


def test_helix_moves_along_a_circle_of_earlier_zones_for_some_minutes(helix):
    earlier, zones = ONE_HASH
    case = with_one_hash(zones)
    afresh = helix.ask(case)["answer"]
    assert ONE_HASH[zones].split() == [node for _, (node,) in sorted(afresh.items())]
    helix.ask(with_one_hash(earlier))
    later = helix.ask(case | {"remembers": True})["answer"]
    assert {"p0": ["Aa"], "p5": ["Aa"]} == {name: nodes for name, nodes in later.items() if nodes != afresh[name]}
