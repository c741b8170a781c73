"""Lists that Helix itself made, out of `vectors/helix`: ours are the same, one by one, and the large ones' digests."""

import json
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from apportion import Node, Topology, balance, native

VECTORS = Path(__file__).parents[1] / "vectors" / "helix"
NAMES = {
    "CrushRebalanceStrategy": "helix.crush",
    "CrushEdRebalanceStrategy": "helix.crushed",
    "MultiRoundCrushRebalanceStrategy": "helix.multiround",
    "AutoRebalanceStrategy": "helix.auto",
}
ODD = 154
# 50 nodes in 5 zones, 1000 partitions of three replicas: all live, and without the first.
DIGESTS = {
    "helix.crush": ("433a1a10b345cb5c", "6c2dcff3987289af"),
    "helix.crushed": ("4a8cdf82f17387bf", "ec7d2f459f742515"),
    "helix.multiround": ("a85620e6898550fb", "f58b8f3bd735b961"),
    "helix.auto": ("484e2574ef735c0f", "790fd103c30426e3"),
}


@cache
def cases():
    """Return every case, the large ones last."""
    return sorted(read("cases.jsonl"), key=lambda case: len(case["nodes"]) * len(case["partitions"]))


@cache
def odd_cases():
    """Return the cases with odd names, weights of 0 and current mappings."""
    return read("odd.jsonl")


def read(name):
    """Return the cases of a file."""
    return [json.loads(line) for line in (VECTORS / name).read_text(encoding="utf-8").split("\n") if line]


def asked(case):
    """Return a case in the words of this library."""
    return options(case) | {
        "resource": case["resource"],
        "partitions": case["partitions"],
        "replicas": case["replicas"],
        "live": case["live"],
        "topology": Topology(
            Node(
                node["id"],
                zone=() if node["zone"] is None else (node["zone"],),
                weight=1 if node["weight"] is None else node["weight"] / 1000,
            )
            for node in case["nodes"]
        ),
    }


def options(case):
    """Return what AutoRebalanceStrategy alone is given."""
    names = {"previous": "previous", "most": "most_per_node"}
    return {names[field]: case[field] for field in names if field in case}


def expected(case):
    """Return the lists of a case, those that are missing empty."""
    return {partition: tuple(case["preference_lists"].get(partition, ())) for partition in case["partitions"]}


def digest(lists):
    """Return the beginning of the digest of lists, as the originals' were taken."""
    return sha256(json.dumps(lists, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def answer(case):
    """Return the lists of our strategy for a case."""
    return dict(balance.get(NAMES[case["strategy"]])(**asked(case)).preference_lists)


def test_there_are_132_cases_of_four_strategies():
    assert 132 == len(cases())
    assert set(NAMES) == {case["strategy"] for case in cases()}


@pytest.mark.parametrize("number", range(124))
def test_a_small_case_is_that_of_helix(number):
    case = cases()[number]
    assert expected(case) == answer(case)


@pytest.mark.parametrize("number", range(124, 132))
def test_a_large_case_and_its_digest_are_those_of_helix(number):
    case = cases()[number]
    lists = answer(case)
    assert expected(case) == lists
    assert DIGESTS[NAMES[case["strategy"]]][len(case["live"]) < len(case["nodes"])] == digest(lists)


@pytest.mark.parametrize("number", range(ODD))
def test_an_odd_case_is_that_of_helix(number):
    case = odd_cases()[number]
    assert expected(case) == answer(case)


def test_every_odd_case_is_asked():
    assert ODD == len(odd_cases())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(132))
def test_the_reference_gives_the_lists_of_helix(number, monkeypatch):
    case = cases()[number]
    if "Crush" not in case["strategy"]:
        pytest.skip("has no twin")
    monkeypatch.setattr(native, "IN_USE", False)
    assert expected(case) == answer(case)
