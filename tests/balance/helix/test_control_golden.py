"""Answers of Helix's own controller, out of `vectors/helix`: ours are the same. `tests/live` asks fresh ones."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.balance.helix_control_cases import our_changes, our_delay, our_kept, our_states

GOLDEN = Path(__file__).parents[1] / "vectors" / "helix" / "control.jsonl"
CASES = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").split("\n") if line]
COUNTS = {"states": 120, "delay": 40, "kept": 40, "throttle": 60}


def test_every_case_is_read():
    assert COUNTS == Counter(case["ask"] for case in CASES)


@pytest.mark.parametrize(("kind", "ours"), [("states", our_states), ("kept", our_kept)])
def test_states_and_kept_lists_are_those_of_helix(kind, ours):
    for case in of(kind):
        expected = case.pop("answer")
        assert expected == ours(case), case


def test_delays_are_those_of_helix():
    for case in of("delay"):
        expected, found = case.pop("answer"), our_delay(case)
        assert {name: expected.get(name) for name in found} == found, case


def test_what_is_admitted_is_what_helix_lets_through():
    for case in of("throttle"):
        expected = case.pop("answer")
        assert sorted(expected) == sorted(our_changes(case)), case


def of(kind):
    """Return the cases of a kind."""
    return [dict(case) for case in CASES if case["ask"] == kind]
