"""`kafka.*` answers as the Java client did: the stored answers of `vectors/kafka`."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.balance.kafka_cases import ASSIGNORS, by_member, ours

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "vectors/kafka/cases.jsonl").read_text().splitlines()
]  # fmt: skip


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_an_assignor_answers_as_the_java_client_does(assignor):
    for case in CASES:
        if case["assignor"] == assignor:
            found = {member: sorted(owned) for member, owned in ours(case).by_member.items()}
            assert by_member(case) == found, case


def test_the_order_of_members_and_of_what_they_say_changes_nothing():
    random = Random(57)
    for case in CASES:
        members = [
            member | {"topics": shuffled(random, member["topics"]), "owned": shuffled(random, member["owned"])}
            for member in shuffled(random, case["members"])
        ]
        topics = dict(shuffled(random, case["topics"].items()))
        assert ours(case).by_member == ours(case | {"topics": topics, "members": members}).by_member


def test_the_cases_are_of_every_kind():
    kinds = Counter()
    for case in CASES:
        equal = 1 == len({frozenset(member["topics"]) for member in case["members"]})
        kinds[case["assignor"], "racks" in case, equal] += 1
        kinds["owned"] += any(member["owned"] for member in case["members"])
        kinds["static"] += any("static" in member for member in case["members"])
    assert 4 * 2 * 2 + 2 == len(kinds)
    assert 400 == len(CASES)
    assert min(kinds.values()) > 3


def shuffled(random, listed):
    """Return a list in another order."""
    listed = list(listed)
    random.shuffle(listed)
    return listed
