"""Assignors of Kafka's own Java client against ours, on fresh random groups; the seed is printed.

`python -m tests.live.test_kafka_assignors_oracle` prints the cases of `tests/balance/vectors/kafka/cases.jsonl`.
`ORACLE_SEED=7 pytest ...` repeats the groups of a seed.
"""

import json
import os
from collections import Counter
from random import Random

import pytest

from bench.jvm import Absent, oracle
from tests.balance.kafka_cases import ASSIGNORS, by_member, histories, is_usable, ours, random_group
from tests.live.seeds import fresh_seed

pytestmark = pytest.mark.live

GROUPS = 3000
STORED, LARGEST = 400, 1500


@pytest.fixture(scope="module")
def kafka():
    """The driver of Kafka's assignors."""
    try:
        with oracle() as running:
            yield running
    except Absent as absent:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(absent))


def test_who_gets_what_is_what_the_java_client_says(kafka, record_property):
    seed, compared, unusable = fresh_seed("groups"), Counter(), 0
    for case, said in histories(Random(seed), kafka.ask, GROUPS):
        if not is_usable(case, said):
            unusable += 1
            continue
        found = {member: sorted(owned) for member, owned in ours(case).by_member.items()}
        assert by_member(said) == found, f"seed {seed}: {json.dumps(case)}"
        compared[case["assignor"]] += 1
    record_property("figures", f"seed {seed}: identical to Java {dict(compared)}; {unusable} answers of Java unusable")
    assert set(ASSIGNORS) == {name for name, count in compared.items() if count > GROUPS / 8}
    assert GROUPS / 50 > unusable


def test_what_is_withheld_is_what_the_java_client_leaves_out(kafka):
    seed, withheld = fresh_seed("withheld"), 0
    random = Random(seed)
    for _ in range(GROUPS // 4):
        case = random_group(random) | {"assignor": "cooperative"}
        said = kafka.ask(case)
        if not is_usable(case, said):
            continue
        given = {partition for owned in by_member(said).values() for partition in owned}
        wanted = {topic for member in case["members"] for topic in member["topics"]}
        left_out = {
            (topic, number) for topic in wanted for number in range(case["topics"][topic])
        } - given  # fmt: skip
        assert left_out == set(ours(case).withheld), f"seed {seed}: {json.dumps(case)}"
        withheld += len(left_out)
    assert withheld > GROUPS / 4


def stored_cases():
    """Yield lines of the file of vectors: small groups, as many of each assignor."""
    kept = Counter()
    with oracle() as running:
        for case, said in histories(Random(56), running.ask, 100_000):
            line = json.dumps(case | said, ensure_ascii=False, separators=(",", ":"))
            if not is_usable(case, said) or len(line) > LARGEST or kept[case["assignor"]] == STORED // len(ASSIGNORS):
                continue
            kept[case["assignor"]] += 1
            yield line
            if kept.total() == STORED:
                return


if __name__ == "__main__":
    for stored in stored_cases():
        print(stored)
