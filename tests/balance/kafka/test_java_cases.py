"""`kafka.*` answers as the Java client 4.1.1 did, in 52 groups of our own: `java_cases.jsonl`, a JSON object a line.

Each has `assignor`, `topics` (numbers of partitions), `racks` (of the replicas of each partition), `members` (`id`,
`topics`, what they `owned` in a `generation`, `static` id, `rack`) and `answer`: what each member was given.
"""

import json
from pathlib import Path

import pytest

from apportion import balance
from apportion.balance.kafka import Subscription

CASES = [json.loads(line) for line in (Path(__file__).parent / "java_cases.jsonl").read_text().splitlines()]


def ours(case):
    """Return what our assignor answers."""
    members = [
        Subscription(
            member["id"],
            topics=member["topics"],
            owned=map(tuple, member["owned"]),
            generation=member["generation"],
            group_instance_id=member.get("static"),
            rack=member.get("rack"),
        )
        for member in case["members"]
    ]
    racks = {(topic, number): at for topic, listed in case.get("racks", {}).items() for number, at in enumerate(listed)}
    return balance.get(f"kafka.{case['assignor']}")(case["topics"], members, racks=racks or None)


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case['assignor']}" for number, case in enumerate(CASES)])
def test_an_assignor_answers_as_the_java_client_does(case):
    answered = {member: sorted(map(tuple, owned)) for member, owned in case["answer"]["members"].items()}
    assert answered == {member: sorted(owned) for member, owned in ours(case).by_member.items()}


def test_there_are_cases_of_every_kind():
    kinds = {
        (case["assignor"], "racks" in case, 1 == len({frozenset(member["topics"]) for member in case["members"]}))
        for case in CASES
    }
    assert 16 == len(kinds)
    assert 52 == len(CASES)
