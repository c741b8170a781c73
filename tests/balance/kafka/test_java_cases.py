"""`kafka.*` answers as the Java client 4.1.1 did, in 53 groups of our own: `java_cases.jsonl`, a JSON object a line.

Each has `assignor`, `topics` (numbers of partitions), `racks` (of the replicas of each partition), `members` (`id`,
`topics`, what they `owned` in a `generation`, `static` id, `rack`) and `answer`: what each member was given.

The last is a part of a group of ORACLE_SEED=1653565845 of the live test.
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


def test_a_partition_goes_on_from_an_older_owner_that_no_longer_wants_it_as_in_java():
    case = CASES[-1]
    ((older, owned),) = [(member, member["owned"]) for member in case["members"] if member["owned"]]
    assert ([["t0", 0]], ["t1"]) == (owned, older["topics"])
    assert [("t0", 0)] == list(ours(case).withheld)
    assert 6 == len(case["answer"]["members"][older["id"]]) == len(ours(case).by_member[older["id"]])


def test_there_are_cases_of_every_kind():
    kinds = {
        (case["assignor"], "racks" in case, 1 == len({frozenset(member["topics"]) for member in case["members"]}))
        for case in CASES
    }
    assert 16 == len(kinds)
    assert 53 == len(CASES)
