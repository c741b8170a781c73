"""The verifier of the demonstration of schedules: each check passes on good runs, and fails on those of its fault."""

import pytest

from apportion.console.demo.cron.verify import checks, slots_of_the_year
from apportion.console.demo.cron.year import SCHEDULES, WEEKS

EXPECTED = {"a": [10, 20], "b": [15]}
GOOD = [(1, "a", 10), (2, "b", 15), (3, "a", 20)]


def failed(ran):
    return {name for name, check in checks(ran, EXPECTED, 4).items() if not check["passed"]}


def test_good_runs_pass():
    assert set() == failed(GOOD)


@pytest.mark.parametrize(
    ("check", "ran"),
    [
        ("missing", GOOD[1:]),
        ("doubled", [*GOOD, (4, "a", 10)]),
        ("doubled", [*GOOD, (4, "a", 11)]),
        ("refired", [*GOOD, (5, "a", 10)]),
    ],
)
def test_each_fault_turns_its_check_red_and_no_other(check, ran):
    assert {check} == failed(ran)


@pytest.mark.slow
def test_each_schedule_of_the_year_has_a_slot_a_week():
    slots = slots_of_the_year()
    assert set(SCHEDULES) == set(slots)
    assert {WEEKS} == set(map(len, slots.values()))
