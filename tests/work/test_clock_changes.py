"""A forecast says which slots a clock change touches, and its answers are those of the rule itself."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest

from apportion.work.cron.calendar import Cron, Every
from apportion.work.cron.clock_changes import clock_changes
from apportion.work.cron.forecast import forecast

SPRING, AUTUMN = datetime(2026, 3, 7, 12, tzinfo=UTC), datetime(2026, 10, 31, 12, tzinfo=UTC)
NEW_YORK = "America/New_York"

# Rule and options, a time, the touched local times, and the number of slots of each.
TOUCHED = [
    ({"rule": "30 2 * * *"}, SPRING, {"02:30": 1}),
    ({"rule": "15,45 2 * * *"}, SPRING, {"02:15": 1, "02:45": 1}),
    ({"rule": "30 2 * * *", "gap": "skip"}, SPRING, {"02:30": 0}),
    ({"rule": "*/30 2 * * *"}, SPRING, {"02:00": 0, "02:30": 0}),
    ({"rule": "30 4 * * *"}, SPRING, {}),
    ({"rule": "30 1 * * *"}, AUTUMN, {"01:30": 1}),
    ({"rule": "30 1 * * *", "fold": "last"}, AUTUMN, {"01:30": 1}),
    ({"rule": "30 1 * * *", "fold": "both"}, AUTUMN, {"01:30": 2}),
    ({"rule": "*/30 1 * * *"}, AUTUMN, {"01:00": 2, "01:30": 2}),
    ({"rule": "0 2 * * *"}, AUTUMN, {}),
]


@pytest.mark.parametrize(("rule", "after", "touched"), TOUCHED)
def test_the_touched_times_of_a_change_are_named_with_their_slots(rule, after, touched):
    changes = forecast(Cron(zone=NEW_YORK, **rule), after=after, most=3).changes()
    assert touched == {f"{each.local:%H:%M}": len(each.slots) for change in changes for each in change.touched}


def test_a_change_has_its_instant_and_its_local_times():
    (change,) = forecast(Cron(rule="30 1 * * *", zone=NEW_YORK), after=AUTUMN, most=1).changes()
    assert ("2026-11-01 06:00:00+00:00", "02:00", "01:00", False) == (
        str(change.at), f"{change.before:%H:%M}", f"{change.after:%H:%M}", change.is_forward
    )  # fmt: skip


def test_half_an_hour_of_lord_howe_is_found():
    (change,) = forecast(
        Cron(rule="45 1 * * *", zone="Australia/Lord_Howe"), after=datetime(2026, 4, 4, tzinfo=UTC), most=1
    ).changes()
    assert timedelta(minutes=30) == change.before - change.after


def test_a_change_whose_slots_are_none_of_the_forecast_is_left_out():
    cron = Cron(rule="30 1 * * *", zone=NEW_YORK)
    assert () == forecast(cron, after=datetime(2026, 11, 1, 6, 30, tzinfo=UTC), most=1).changes()
    assert () == forecast(cron, after=datetime(2026, 10, 29, 12, tzinfo=UTC), most=2).changes()


def test_a_period_knows_no_clock():
    assert () == forecast(Every(period=timedelta(minutes=7)), after=AUTUMN, most=200).changes()


@pytest.mark.parametrize(
    "zone",
    [
        pytest.param(zone, marks=pytest.mark.slow if zone == "Australia/Lord_Howe" else ())
        for zone in (NEW_YORK, "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "UTC")
    ],
)
def test_the_slots_of_touched_times_are_slots_of_the_rule_and_the_changes_those_of_the_zone(zone):
    draw = Random(zone)
    begin, end = datetime(2025, 12, 31, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
    here = ZoneInfo(zone)
    offsets = [(begin + timedelta(hours=each)).astimezone(here).utcoffset() for each in range(367 * 24)]
    for _ in range(4):
        minute = draw.choice(["*", "*/15", "0", "15,30,45", "10"])
        hour = draw.choice(["*", "*/2", "1", "2", "1,2,3"])
        cron = Cron(
            rule=f"{minute} {hour} * * *", zone=zone,
            gap=draw.choice(["run-after", "skip"]), fold=draw.choice(["first", "last", "both"]),
        )  # fmt: skip
        slots = set()
        for slot in cron.slots(begin):
            if slot > end:
                break
            slots.add(slot)
        changes = list(clock_changes(cron, after=begin, until=end))
        assert {slot for change in changes for each in change.touched for slot in each.slots} <= slots
        if minute == hour == "*":
            assert sum(a != b for a, b in pairwise(offsets)) == len(changes)
