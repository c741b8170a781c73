"""Which slots of a due schedule are fired: the policies for missed slots and for open tasks."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from apportion.stores.schedules.values import DueSchedule, TaskSchedule
from apportion.work.cron import due_slots
from apportion.work.cron.calendar import Every
from apportion.work.cron.due_slots import MOST_MISSED, decide, jitter_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 24 * 3_600_000
NOON = int(datetime(2026, 5, 5, 12, tzinfo=UTC).timestamp() * 1_000)


def scheduled(rule="0 * * * *", **fields):
    """Return an hourly schedule whose next slot is noon."""
    fields = {"next_slot": NOON, "last_slot": NOON - HOUR} | fields
    return TaskSchedule(queue="q", name="s", rule=rule, task="f", arguments=b"{}", **fields)


def decided(schedule, now, waiting=(), running=()):
    ids = (f"t{number}" for number in count(1))
    due = DueSchedule(schedule=schedule, waiting=waiting, running=running)
    return decide(due, now=now, new_id=lambda: next(ids), tzdata="2026a")


def slots_of(firing):
    return [task.slot for task in firing.tasks]


def fired(*arguments, **options):
    return slots_of(decided(*arguments, **options).firing)


def test_a_slot_that_has_come_gets_one_task_and_names_the_next_slot():
    firing = decided(scheduled(), NOON + 5).firing
    assert [("t1", NOON, "s", None)] == [(task.id, task.slot, task.schedule, task.due_at) for task in firing.tasks]
    assert (NOON, NOON + HOUR, NOON - HOUR) == (firing.slot, firing.next_slot, firing.last_slot)


@pytest.mark.parametrize(
    ("missed", "slots"),
    [("last", [NOON + 3 * HOUR]), ("skip", []), ("all", [NOON + each * HOUR for each in range(4)])],
)
def test_slots_of_an_outage_follow_the_policy_for_missed_slots(missed, slots):
    schedule = scheduled(missed=missed, overlap="allow")
    assert slots == fired(schedule, NOON + 3 * HOUR + 2 * MINUTE)


def test_skip_fires_a_slot_that_is_a_minute_late_at_most():
    assert [NOON] == fired(scheduled(missed="skip"), NOON + MINUTE)
    assert [] == fired(scheduled(missed="skip"), NOON + MINUTE + 1)


def test_all_fires_the_newest_hundred_of_the_last_day_oldest_first():
    now = NOON + 3 * DAY
    slots = fired(scheduled("* * * * *", missed="all", overlap="allow"), now)
    assert [now - each * MINUTE for each in reversed(range(MOST_MISSED))] == slots
    hourly = fired(scheduled(missed="all", overlap="allow"), now)
    assert [now - each * HOUR for each in reversed(range(24))] == hourly


def test_a_long_outage_of_a_frequent_schedule_costs_few_steps(monkeypatch):
    steps = count()

    class Seconds:
        def slots(self, after):
            for slot in Every(period=timedelta(seconds=1)).slots(after):
                next(steps)
                yield slot

    monkeypatch.setattr(due_slots, "rule_of", lambda _: Seconds())
    slots = fired(scheduled("every 1000ms", missed="all", overlap="allow"), NOON + DAY)
    assert [NOON + DAY - each * 1_000 for each in reversed(range(MOST_MISSED))] == slots
    assert next(steps) < 1_000


def test_after_a_year_without_a_node_the_newest_slot_fires_and_the_next_one_is_ahead():
    firing = decided(scheduled("* * * * *"), NOON + 365 * DAY + 1).firing
    assert (NOON + 365 * DAY, NOON + 365 * DAY + MINUTE) == (firing.slot, firing.next_slot)


@pytest.mark.parametrize(
    ("overlap", "waiting", "running", "slots", "cancels"),
    [
        ("allow", ("a",), ("b",), [NOON], ()),
        ("skip", (), ("b",), [], ()),
        ("skip", ("a",), (), [], ()),
        ("skip", (), (), [NOON], ()),
        ("queue-one", (), ("b",), [NOON], ()),
        ("queue-one", ("a",), ("b",), [], ()),
        ("cancel-old", ("a",), ("b",), [NOON], ("a", "b")),
        ("cancel-old", (), (), [NOON], ()),
    ],
)
def test_a_slot_beside_open_tasks_follows_the_policy_for_overlap(overlap, waiting, running, slots, cancels):
    firing = decided(scheduled(overlap=overlap), NOON, waiting, running).firing
    assert (slots, cancels) == (slots_of(firing), firing.cancels)
    assert [NOON] == [*slots_of(firing), *firing.skipped]


def test_the_stored_next_slot_fires_though_this_process_computes_another_one():
    decision = decided(scheduled(next_slot=NOON + 7 * MINUTE), NOON + 7 * MINUTE)
    assert ([NOON + 7 * MINUTE], True) == (slots_of(decision.firing), decision.disagrees)
    assert NOON + HOUR == decision.firing.next_slot
    assert not decided(scheduled(), NOON).disagrees


def test_jitter_moves_the_task_within_its_window_and_is_equal_everywhere():
    schedule = scheduled(jitter_ms=10 * MINUTE)
    (task,) = decided(schedule, NOON).firing.tasks
    assert NOON + jitter_ms(schedule, NOON) == task.due_at
    waits = {jitter_ms(schedule, NOON + each * HOUR) for each in range(100)}
    assert len(waits) > 90
    assert all(0 <= each < 10 * MINUTE for each in waits)


def test_a_period_is_a_rule_too():
    firing = decided(scheduled("every 90000ms", next_slot=NOON), NOON + 1).firing
    assert (NOON, NOON + 90_000) == (firing.slot, firing.next_slot)
