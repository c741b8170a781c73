"""An operator reads schedules, sees what is wrong with one, deploys the schedules of a program, and acts on one."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import apportion
from apportion.errors import AlreadyTriggered, InvalidInput
from apportion.stores.sqlite.schedules import SqliteSchedules
from apportion.sync import cron_admin
from apportion.work.admin import cron

HOUR = timedelta(hours=1)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'work.db'}"


def program(url, *, rule="0 9 * * *", names=("report",), **policies):
    """Return the queue of a program with a schedule per name."""
    queue = apportion.Queue(url, "q")

    @queue.task()
    def work() -> None: ...

    for name in names:
        queue.cron(rule, name=name, **policies)(work)
    return queue


def played(play):
    """Run an async test body for at most half a minute."""
    return asyncio.run(asyncio.wait_for(play, 30))


def damaged(url, change):
    """Change a row of the file by hand."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
        file.execute(f"UPDATE schedule SET {change}")


def acts(changes):
    return [(each.act, each.name) for each in changes]


def test_a_first_deployment_adds_all_and_a_second_changes_nothing(url):
    queue = program(url, names=("a", "b"))

    async def _play():
        planned = await cron.plan(queue)
        applied = await cron.apply(queue)
        return acts(planned), acts(applied), await cron.plan(queue), await cron.apply(queue)

    everything = [("add", "a"), ("add", "b")]
    assert (everything, everything, (), ()) == played(_play())


def test_a_deployment_changes_and_removes_by_version_and_the_last_slot_stays(url):
    async def _play():
        await cron.apply(program(url, names=("a", "b")))
        before = [each.schedule for each in await cron.schedules(url, "q")]
        await cron.pause(url, "q", "a")
        changes = await cron.apply(program(url, rule="30 10 * * *", names=("a",), zone="Europe/Berlin"))
        return before, changes, [each.schedule for each in await cron.schedules(url, "q")]

    before, changes, (after,) = played(_play())
    assert [("change", "a"), ("remove", "b")] == acts(changes)
    assert ("rule", "zone") == changes[0].fields
    assert (before[0].last_slot, before[0].version + 1, True) == (after.last_slot, after.version, after.is_paused)
    assert "30 10 * * *" == after.rule
    assert after.next_slot > after.last_slot


@pytest.mark.parametrize(("more", "is_kept"), [({"overlap": "allow"}, True), ({"rule": "0 9,10 * * *"}, False)])
def test_a_slot_that_is_due_outlives_a_change_of_a_policy_and_no_change_of_the_rule(url, more, is_kept):
    due = 1_577_869_200_000

    async def _play():
        await cron.apply(program(url))
        damaged(url, f"last_slot = 1000, next_slot = {due}, tzdata = '1999a'")  # no worker was there at its slot
        changes = await cron.apply(program(url, **more))
        return acts(changes), (await cron.schedules(url))[0].schedule

    changes, after = played(_play())
    assert [("change", "report")] == changes
    assert (2, 1_000, is_kept, is_kept) == (
        after.version, after.last_slot, after.next_slot == due, after.tzdata == "1999a"
    )  # fmt: skip


def test_a_slot_that_is_due_outlives_a_new_call_from_data(url):
    queue = program(url)
    work = queue._functions["work"]

    async def _play():
        await queue.schedule("tenant-7", work.call(), every=HOUR)
        damaged(url, "last_slot = 1000, next_slot = 3600000")
        assert not await queue.schedule("tenant-7", work.call().options(priority=0), every=HOUR)
        await queue.close()
        return (await cron.schedules(url))[0].schedule

    after = played(_play())
    assert (3_600_000, 0) == (after.next_slot, after.lane)


def test_a_schedule_from_data_is_not_touched_even_under_a_declared_name(url):
    queue = program(url, names=("ours",))

    async def _play():
        for name in ("tenant-7", "ours"):
            await queue.schedule(name, queue._functions["work"].call(), every=HOUR)
        planned, applied = await cron.plan(queue), await cron.apply(queue)
        found = await cron.schedules(url)
        await queue.close()
        return acts(planned), applied, [(each.schedule.name, each.schedule.rule) for each in found]

    kept = [("ours", "every 3600000ms"), ("tenant-7", "every 3600000ms")]
    assert ([("keep", "ours")], (), kept) == played(_play())


def test_two_deployments_that_undo_each_other_both_come_to_an_end(url, monkeypatch):
    async def _play():
        await cron.apply(program(url))
        before, listings = [each.schedule for each in await cron.schedules(url, "q")], []

        async def _listed(self, queue=None):
            """As if another deployment had changed everything back meanwhile."""
            listings.append(queue)
            assert len(listings) < 5, "the deployment does not end"
            version = before[0].version + len(listings) - 1
            return tuple(replace(each, queue="default/q", version=version) for each in before)

        monkeypatch.setattr(SqliteSchedules, "listed", _listed)
        return await cron.apply(program(url, rule="0 10 * * *"))

    assert [("change", "report")] == acts(played(_play()))


@pytest.mark.slow
def test_old_and_new_programs_side_by_side_do_not_change_a_schedule_back_and_forth(url):
    old, new = program(url, rule="0 9 * * *", names=("a", "gone")), program(url, rule="0 10 * * *", names=("a",))

    async def _worked(queue):
        async with queue.worker():
            await asyncio.sleep(0.2)
            found = await cron.schedules(url, "q")
        await queue.close()
        return [(each.schedule.name, each.schedule.rule, each.schedule.version) for each in found]

    async def _play():
        first = await _worked(old)
        await cron.apply(new)
        return [first, *[await _worked(each) for each in (old, new, old, new)]]

    first, *later = played(_play())
    assert [("a", "0 9 * * *", 1), ("gone", "0 9 * * *", 1)] == first
    after = [("a", "0 10 * * *", 2), ("gone", "0 9 * * *", 1)]  # an old worker that starts adds an absent one again
    assert [after] * 4 == later


def test_a_pause_a_resume_and_a_removal_say_whether_they_changed_anything(url):
    async def _play():
        await cron.apply(program(url))
        place = (url, "q", "report")
        pauses = [await cron.pause(*place), await cron.pause(*place)]
        resumes = [await cron.resume(*place), await cron.resume(*place)]
        await cron.remove(*place)
        with pytest.raises(InvalidInput, match="report"):
            await cron.remove(*place)
        return pauses, resumes

    assert ([True, False], [True, False]) == played(_play())


def test_a_task_that_runs_now_takes_no_later_slot_away(url):
    async def _play():
        await cron.apply(program(url))
        (before,) = await cron.schedules(url)
        task = await cron.run_now(url, "q", "report")
        (after,), (mark,) = await cron.schedules(url), await cron.history(url, "q", "report")
        return before.schedule, after.schedule, (mark.task == task, mark.by, mark.mark, mark.slot)

    before, after, mark = played(_play())
    assert (True, "run-now", "fired", after.last_slot) == mark
    assert before.next_slot == after.next_slot
    assert before.last_slot < after.last_slot


def test_a_task_that_runs_now_is_that_of_a_slot_that_is_due(url):
    async def _play():
        await cron.apply(program(url))
        damaged(url, "last_slot = 1000, next_slot = 1577869200000")
        await cron.run_now(url, "q", "report")
        return [each.slot for each in await cron.history(url, "q", "report")]

    assert [1_577_869_200_000] == played(_play())


def test_no_task_runs_now_of_a_schedule_whose_last_slot_lies_ahead(url):
    queue = program(url)

    async def _play():
        await cron.apply(queue)
        await queue.trigger("report", datetime(2199, 1, 1, tzinfo=UTC))
        await queue.close()
        with pytest.raises(AlreadyTriggered):
            await cron.run_now(url, "q", "report")

    played(_play())


TROUBLES = [
    ("rule = 'sometimes'", "unable"),
    ("zone = 'Mars/Olympus'", "unable"),
    ("overlap = 'often'", "unable"),
    ("jitter_ms = 'soon'", "damaged"),
    ("last_slot = next_slot", "damaged"),
    ("next_slot = next_slot + 60000, tzdata = '1999a'", "schedule_disagrees"),
    ("last_slot = 0, next_slot = 1577869200000", "late"),
    ("last_slot = 0, next_slot = 1577869200000, paused = 1", ""),
    ("paused = 0", ""),
]


@pytest.mark.parametrize(("change", "trouble"), TROUBLES)
def test_a_schedule_is_shown_with_its_trouble_and_costs_no_other(url, change, trouble):
    async def _play():
        await cron.apply(program(url, names=("a", "b")))
        damaged(url, f"{change} WHERE name = 'a'")
        return await cron.schedules(url)

    first, second = played(_play())
    assert (trouble, "") == (first.trouble, second.trouble)
    assert bool(trouble) == bool(first.problem)
    if trouble == "schedule_disagrees":
        assert "1999a" in first.problem
        assert apportion.work.cron.zone_data.zone_data_version() in first.problem


@pytest.mark.parametrize("change", ["jitter_ms = 'soon'", "last_slot = 'never'"])
def test_a_deployment_mends_a_damaged_row(url, change):
    queue = program(url)

    async def _play():
        await cron.apply(queue)
        damaged(url, change)
        changes = await cron.apply(queue)
        return acts(changes), [each.trouble for each in await cron.schedules(url)]

    assert ([("change", "report")], [""]) == played(_play())


def test_the_stored_slot_comes_first_whatever_the_rule_says(url):
    async def _play():
        await cron.apply(program(url))
        damaged(url, "last_slot = 1000, next_slot = 1577869261000")
        found = await cron.forecast(url, "q", "report", most=2)
        later = await cron.forecast(url, "q", "report", after=datetime(2026, 1, 1, 10, tzinfo=UTC), most=1)
        return [str(each) for each in (*found.slots, *later.slots)]

    assert ["2020-01-01 09:01:01+00:00", "2020-01-02 09:00:00+00:00", "2026-01-02 09:00:00+00:00"] == played(_play())


def test_no_schedule_of_another_namespace_is_shown(url):
    async def _play():
        await cron.apply(program(url))
        await cron.apply(program(f"{url}?namespace=other", names=("theirs",)))
        return [each.schedule.name for each in await cron.schedules(url)]

    assert ["report"] == played(_play())


def test_the_sync_form_answers_as_the_async_one(url):
    queue = apportion.sync.Queue(url, "q")

    @queue.every(HOUR)
    @queue.task()
    def tick() -> None: ...

    assert ["add"] == [each.act for each in cron_admin.apply(queue)]
    assert cron_admin.pause(url, "q", "tick")
    (found,) = cron_admin.schedules(url, "q")
    assert (True, "q") == (found.schedule.is_paused, found.schedule.queue)


BAD = [
    ("a queue that none can have", lambda url: cron.schedules(url, "a/b"), "queue"),
    ("a schedule that is not there", lambda url: cron.pause(url, "q", "none"), "schedule"),
    ("a schedule that is not there", lambda url: cron.history(url, "q", "none"), "schedule"),
    ("a schedule that is not there", lambda url: cron.run_now(url, "q", "none"), "schedule"),
    ("a name that no store can keep", lambda url: cron.remove(url, "q", "a\ud800"), "schedule"),
    ("no slots", lambda url: cron.forecast(url, "q", "report", most=0), "most"),
    ("a time without a zone", lambda url: cron.forecast(url, "q", "report", after=datetime(2026, 1, 1)), "after"),  # noqa: DTZ001
    ("a store that is not there", lambda url: cron.schedules(f"{url}x"), "store"),
    ("no queue", lambda url: cron.plan("app:queue"), "program"),
]


@pytest.mark.parametrize(("ask", "field"), [each[1:] for each in BAD], ids=[each[0] for each in BAD])
def test_a_mistake_of_an_operator_is_refused_by_name(url, ask, field):
    async def _play():
        await cron.apply(program(url))
        with pytest.raises(InvalidInput, match=field):
            await ask(url)

    played(_play())
