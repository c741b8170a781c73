"""The oracle of slots against the shipped calendar, and its refusals."""

import itertools
from datetime import UTC, datetime

import pytest

from apportion.sim.slot_walk import SlotWalk, instant
from apportion.work.cron.calendar import Cron
from tests.sim.scenarios.cron_schedules import _RULES, ZONES

BEGIN, END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("gap", "fold"), [("run-after", "first"), ("skip", "last"), ("run-after", "both")])
def test_the_walk_finds_the_slots_of_the_calendar(zone, gap, fold):
    for rule in (*_RULES, "0 9 * * mon-fri", "7-9 4 1-7 10 2"):
        walked = [*SlotWalk(rule, zone, gap, fold).between(instant(BEGIN), instant(END))]
        slots = Cron(rule=rule, zone=zone, gap=gap, fold=fold).slots(BEGIN)
        assert [*map(instant, itertools.takewhile(lambda slot: slot <= END, slots))] == walked


def test_the_next_and_the_newest_slot_are_those_beside_a_time():
    walk, slot = SlotWalk("0 9 * * *"), instant(datetime(2026, 5, 5, 9, tzinfo=UTC))
    assert (slot, slot + 86_400_000) == (walk.next(slot - 1), walk.next(slot))
    assert (slot, None) == (walk.newest(slot, after=slot - 86_400_000), walk.newest(slot, after=slot))


@pytest.mark.parametrize("rule", ["0 0 L * *", "@daily", "0 0 * *", "0 0 * * 1#5"])
def test_a_rule_that_the_walk_cannot_read_is_known_as_such(rule):
    assert not SlotWalk(rule).is_readable
