"""An operator reads and changes queues, and hears why a task is not done."""

import asyncio
import os
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.stores import connect
from apportion.stores.catalog import connect_tasks, parsed_url
from apportion.stores.postgres.administration import PostgresAdministration
from apportion.stores.sqlite.administration import SqliteAdministration
from apportion.stores.sqlite.tasks import SqliteTasks
from apportion.stores.task_control import MOST_PURGED, Hasten, QueueStats, StoreTime, TaskRow
from apportion.stores.task_values import NewTask, Settlement, Worker
from apportion.work import admin
from apportion.work.admin.cause import Around, cause_of
from apportion.work.admin.inquiry import Inquiry
from apportion.work.facade import Queue
from tests.mistakes import check_refused, mistakes


@pytest.fixture
def queue(tmp_path):
    return Queue(f"sqlite:///{tmp_path}/work.db", "mail", lease_ttl=timedelta(seconds=2))


def played(play):
    """Run an async test body for at most half a minute."""
    return asyncio.run(asyncio.wait_for(play, 30))


def elsewhere(url):
    """Return the URL of another namespace in the same store."""
    if "namespace=" in url:
        return re.sub("namespace=[a-z0-9]*", "namespace=other", url)
    return f"{url}{'&' if '?' in url else '?'}namespace=other"


def test_a_paused_queue_starts_nothing_until_it_is_resumed(queue):
    runs = []

    @queue.task()
    def run() -> None:
        runs.append(1)

    async def _play():
        handle = await queue.enqueue(run.call())
        await admin.pause(queue.url, "mail")
        assert (0, "paused") == ((await queue.drain()).done, (await admin.why(queue.url, handle.id)).cause)
        await admin.resume(queue.url, "mail")
        assert (1, "missing") == ((await queue.drain()).done, (await admin.why(queue.url, handle.id)).cause)

    played(_play())


def test_the_beginning_of_an_id_names_a_task_that_alone_has_it(queue):
    async def _play():
        @queue.task()
        async def run() -> None: ...

        handle = await queue.enqueue(run.call())
        store = await connect_tasks(queue.url)
        full = Inquiry(store=store, prefix=f"{parsed_url(queue.url).namespace}/").full("mail")
        twins = [NewTask(id="abcd" + 28 * digit, queue=full, name="run", arguments=b"{}") for digit in "1234"]
        stranger = replace(twins[0], id="abcd" + 28 * "5", queue="other/mail")
        await store.enqueue([*twins, stranger])
        for begin, whole in ((handle.id[:8], handle.id), (handle.id, handle.id), ("abcd3", twins[2].id)):
            assert [whole] == [row.id for row in await admin.show(queue.url, begin)]
        assert [("abc", "missing")] == [(row.id, row.state) for row in await admin.show(queue.url, "abc")]
        for ask in (admin.show, admin.why, admin.cancel, admin.retry, admin.redrive):
            with pytest.raises(InvalidInput, match=f"{twins[0].id}, {twins[1].id}, {twins[2].id} and 1 more"):
                await ask(queue.url, "abcd")
        assert "missing" == (await admin.why(queue.url, "abcd5")).task.state
        assert 1 == await admin.cancel(queue.url, "abcd1")
        assert 1 == await admin.redrive(queue.url, "abcd1")
        assert "ready" == (await admin.why(queue.url, "abcd1")).task.state
        await store.close()

    played(_play())


def test_a_task_is_shown_with_the_sessions_that_ended_under_it(queue):
    async def _play():
        @queue.task()
        async def run() -> None: ...

        handle = await queue.enqueue(run.call())
        store, tasks = await connect(queue.url), await connect_tasks(queue.url)
        full = Inquiry(store=tasks, prefix=f"{parsed_url(queue.url).namespace}/").full("mail")
        workers = [Worker(session=(await store.grant(ttl_seconds=9)).id, queues=(full,)) for _ in range(2)]
        await tasks.turn(workers[0], want=1)
        await store.revoke(workers[0].session)
        await tasks.turn(workers[1], want=1)
        (row,) = await admin.show(queue.url, handle.id)
        assert ((workers[0].session,), 2) == (row.deaths_of, row.attempt)
        await tasks.close()
        await store.close()

    played(_play())


def test_a_limit_holds_over_all_workers(queue):
    running, most = [], []

    @queue.task()
    async def run() -> None:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.pop()

    async def _play():
        await queue.enqueue_many([run.call() for _ in range(12)])
        await admin.limit(queue.url, "mail", running=3)
        async with queue.worker(concurrency=4), queue.worker(concurrency=4):
            while len(most) < 12 or running:
                await asyncio.sleep(0.01)
        assert max(most) <= 3

    played(_play())


def test_dead_tasks_are_listed_redriven_and_purged(queue):
    @queue.task(failures=1)
    def fail() -> None:
        raise ValueError("no")

    async def _play():
        handles = await queue.enqueue_many([fail.call(), fail.call()])
        assert 2 == (await queue.drain()).dead
        first, second = (await admin.tasks(queue.url, "mail", states=("dead",))).tasks
        assert {first.id, second.id} == {each.id for each in handles}
        assert ("dead", "ValueError: no") == ((found := await admin.why(queue.url, first.id)).cause, found.task.reason)
        assert (1, 0) == (await admin.redrive(queue.url, first.id), await admin.redrive(queue.url, first.id))
        (stats,) = await admin.stats(queue.url)
        assert ("mail", 1, 1) == (stats.queue, stats.ready, stats.dead)
        assert (1, 1) == (await admin.purge(queue.url, "mail", "dead"), await admin.purge(queue.url, "mail", "ready"))

    played(_play())


def test_a_command_does_not_read_the_whole_store_to_see_whether_it_exists(queue, monkeypatch):
    """Damage is looked for by `doctor` alone: with a million tasks that takes longer than a command may."""

    async def _inspected(_):
        raise AssertionError("the whole store was read")

    async def _play():
        await queue.enqueue_many([])
        for each in (SqliteAdministration, PostgresAdministration):
            monkeypatch.setattr(each, "inspect", _inspected)
        await admin.pause(queue.url, "mail")
        assert ["mail"] == [each.queue for each in await admin.stats(queue.url)]

    played(_play())


def test_a_purge_of_many_tasks_makes_short_commits_and_an_outage_tells_how_far_it_came(queue, monkeypatch):
    @queue.task()
    async def run(number: int) -> None: ...

    purged, control = [], SqliteTasks.control

    async def _control(tasks, command):
        if len(purged) == 1:
            purged.append("away")
            raise StoreUnavailable("the store", "it is away")
        purged.append(await control(tasks, command))
        return purged[-1]

    async def _play():
        for _ in range(11):
            await queue.enqueue_many([run.call(number) for number in range(1_000)])
        monkeypatch.setattr(SqliteTasks, "control", _control)
        with pytest.raises(StoreUnavailable, match="At least 5000 tasks were changed before"):
            await admin.purge(queue.url, "mail", "ready")
        assert 6_000 == await admin.purge(queue.url, "mail", "ready")

    played(_play())
    assert [MOST_PURGED, "away", MOST_PURGED, 1_000] == purged


def test_an_outage_in_an_act_on_all_tells_how_far_it_came(queue, monkeypatch):
    @queue.task()
    async def run(number: int) -> None: ...

    control = SqliteTasks.control

    async def _play():
        await queue.enqueue_many([run.call(number) for number in range(600)])
        left = iter([True, False])

        async def _control(tasks, command):
            if next(left):
                return await control(tasks, command)
            raise StoreUnavailable("the store", "it is away")

        monkeypatch.setattr(SqliteTasks, "control", _control)
        with pytest.raises(StoreUnavailable, match="At least 500 tasks were changed before"):
            await admin.cancel_all(queue.url, "mail")

    played(_play())


def test_waiting_tasks_are_retried_and_cancelled(queue):
    @queue.task()
    def run() -> None: ...

    async def _play():
        one, other = await queue.enqueue_many([run.call().options(delay=timedelta(hours=1)) for _ in range(2)])
        assert "due" == (await admin.why(queue.url, one.id)).cause
        assert (1, 1) == (await admin.retry(queue.url, one.id), await admin.cancel(queue.url, other.id))
        assert ("no_worker", "cancelled") == tuple(
            [(await admin.why(queue.url, each.id)).cause for each in (one, other)]
        )

    played(_play())


def test_the_tasks_of_a_queue_are_paged_and_each_comes_once(queue):
    @queue.task(failures=1)
    def fail() -> None:
        raise ValueError("no")

    @queue.task()
    def run() -> None: ...

    async def _play():
        dead = await queue.enqueue_many([fail.call() for _ in range(5)])
        await queue.drain()
        waiting = await queue.enqueue_many([run.call() for _ in range(4)])
        await Queue(elsewhere(queue.url), "mail").enqueue(run.call())
        states, after, seen = ("ready", "dead"), None, []
        while not seen or after is not None:
            page = await admin.tasks(queue.url, "mail", states=states, after=after, most=2)
            assert 2 >= len(page.tasks) > 0
            seen, after = [*seen, *page.tasks], page.after
        assert [each.id for each in waiting] == [row.id for row in seen[:4]]
        assert sorted(each.id for each in dead) == sorted(row.id for row in seen[4:])
        assert {"mail"} == {row.queue for row in seen}

    played(_play())


def test_all_dead_tasks_of_a_name_are_redriven_but_those_that_died_since(queue, monkeypatch):
    monkeypatch.setattr("apportion.work.admin.acts._PAGE", 2)

    @queue.task(failures=1)
    def fail() -> None:
        raise ValueError("no")

    @queue.task(failures=1)
    def other() -> None:
        raise ValueError("no")

    async def _play():
        await queue.enqueue_many([*(fail.call() for _ in range(5)), other.call(), fail.call().options(unique="one")])
        await queue.drain()
        await queue.enqueue(fail.call().options(unique="one"))
        assert 5 == await admin.redrive_all(queue.url, "mail", name="fail")
        (stats,) = await admin.stats(queue.url)
        assert (6, 2) == (stats.ready, stats.dead)

    played(_play())


def test_all_delayed_tasks_are_retried_or_cancelled_page_by_page(queue, monkeypatch):
    monkeypatch.setattr("apportion.work.admin.acts._PAGE", 2)

    @queue.task()
    def run() -> None: ...

    async def _play():
        await queue.enqueue_many([run.call().options(delay=timedelta(hours=1)) for _ in range(5)])
        assert 5 == await admin.retry_all(queue.url, "mail")
        assert 0 == await admin.retry_all(queue.url, "mail")
        assert 0 == await admin.cancel_all(queue.url, "mail", name="other")
        assert 5 == await admin.cancel_all(queue.url, "mail")
        (stats,) = await admin.stats(queue.url)
        assert (0, 5) == (stats.ready, stats.cancelled)

    played(_play())


def test_running_tasks_of_several_pages_are_each_asked_to_stop(queue, monkeypatch):
    monkeypatch.setattr("apportion.work.admin.acts._PAGE", 2)
    ended = []

    @queue.task()
    async def run() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    async def _play():
        handles = await queue.enqueue_many([run.call() for _ in range(5)])
        async with queue.worker():
            while {"claimed"} != {await each.state() for each in handles}:
                await asyncio.sleep(0.01)
            assert 5 == await admin.cancel_all(queue.url, "mail", states=("claimed",))
            while {"cancelled"} != {await each.state() for each in handles}:
                await asyncio.sleep(0.01)
        assert 5 == len(ended)

    played(_play())


@pytest.mark.parametrize("is_standing", [False, True])
def test_an_act_on_all_ends_although_its_tasks_die_again_and_others_come(queue, monkeypatch, is_standing):
    monkeypatch.setattr("apportion.work.admin.acts._PAGE", 2)
    control, now_ms = Inquiry.control, Inquiry.now_ms
    runs = []

    async def _dies_again(inquiry, command):
        changed = await control(inquiry, command)
        worker = Worker(session=runs[0], queues=(inquiry.full("mail"),))
        if not is_standing:
            await inquiry.store.enqueue(
                [NewTask(id=f"late{len(runs)}", queue=worker.queues[0], name="f", arguments=b"{}")]
            )
        claims = (await inquiry.store.turn(worker, want=10)).claims
        await inquiry.store.turn(worker, [Settlement(receipt=each.receipt, fate="dead") for each in claims])
        runs.append(len(claims))
        assert len(runs) < 10
        return changed

    async def _play():
        store, coordination = await connect_tasks(queue.url), await connect(queue.url)
        runs.append((await coordination.grant(ttl_seconds=30)).id)
        worker = Worker(session=runs[0], queues=(f"{parsed_url(queue.url).namespace}/mail",))
        for each in "abc":
            await store.enqueue([NewTask(id=each, queue=worker.queues[0], name="f", arguments=b"{}")])
        claims = (await store.turn(worker, want=10)).claims
        await store.turn(worker, [Settlement(receipt=each.receipt, fate="dead") for each in claims])
        until = await store.query(StoreTime())
        while await store.query(StoreTime()) == until:
            await asyncio.sleep(0.001)
        if is_standing:  # as if the clock of the store stood
            monkeypatch.setattr(Inquiry, "now_ms", _later)
        monkeypatch.setattr(Inquiry, "control", _dies_again)
        assert 3 == await admin.redrive_all(queue.url, "mail")
        await store.close()
        await coordination.close()

    async def _later(inquiry):
        return await now_ms(inquiry) + 60_000

    played(_play())


def test_workers_are_named_with_their_queues(queue):
    async def _play():
        async with queue.worker(concurrency=3):
            while not (found := await admin.workers(queue.url)):
                await asyncio.sleep(0.01)
        assert [(("mail",), 3, os.getpid())] == [(each.queues, each.concurrency, each.pid) for each in found]
        assert () == await admin.workers(elsewhere(queue.url))

    played(_play())


def test_tasks_are_shown_in_the_order_of_their_ids_and_only_within_the_namespace(queue):
    @queue.task()
    def run(number: int) -> None: ...

    async def _play():
        ids = [each.id for each in await queue.enqueue_many([run.call(number) for number in range(3)])]
        shown = await admin.show(queue.url, ids[2], "nothing", ids[0])
        assert [(ids[2], "ready"), ("nothing", "missing"), (ids[0], "ready")] == [(row.id, row.state) for row in shown]
        assert ["missing"] == [row.state for row in await admin.show(elsewhere(queue.url), ids[0])]
        assert 0 == await admin.cancel(elsewhere(queue.url), *ids)

    played(_play())


@pytest.mark.slow
def test_the_cause_of_a_spent_rate_is_the_limit_until_it_allows_another_start(queue):
    @queue.task()
    def run() -> None: ...

    async def _play():
        one, other = await queue.enqueue_many([run.call(), run.call()])
        await admin.limit(queue.url, "mail", rate=1, per=timedelta(seconds=2))
        async with queue.worker():
            while "missing" != await one.state():
                await asyncio.sleep(0.01)
            assert "limited" == (await admin.why(queue.url, other.id)).cause
            while "missing" != await other.state():
                await asyncio.sleep(0.01)

    played(_play())


WORKS = {"workers": 1}


@pytest.mark.parametrize(
    ("row", "stats", "cause"),
    [
        ({"state": "claimed"}, WORKS, "claimed"),
        ({"state": "claimed"}, {}, "no_worker"),
        ({"state": "missing"}, {}, "missing"),
        ({"state": "done"}, {}, "done"),
        ({"state": "dead", "reason": "expired"}, {}, "dead"),
        ({"state": "cancelled", "reason": "cancelled"}, {}, "cancelled"),
        ({"state": "cancelled", "reason": "expired"}, {}, "expired"),
        ({"state": "ready", "expires_at": 1_000}, {"is_paused": True}, "expired"),
        ({"state": "ready", "expires_at": 1_001}, WORKS, "ready"),
        ({"state": "delayed", "due": 2_000}, {"is_paused": True}, "paused"),
        ({"state": "delayed", "due": 2_000}, {}, "due"),
        ({"state": "delayed", "due": 1_000}, {}, "no_worker"),
        ({"state": "delayed", "due": 1_000}, WORKS, "ready"),
        ({"state": "delayed", "due": 2_000, "deaths": 1}, WORKS, "due"),
        ({"state": "delayed", "due": 2_000, "deaths": 2}, WORKS, "suspect"),
        ({"state": "delayed", "due": 2_000, "reason": "this worker has no task function 'f'"}, {}, "unknown_name"),
        ({"state": "ready", "reason": "this worker has no task function 'f'"}, {}, "no_worker"),
        ({"state": "ready", "reason": "this worker has no task function 'f'"}, WORKS, "unknown_name"),
        ({"state": "ready"}, WORKS, "ready"),
        ({"state": "ready"}, {**WORKS, "open_claims": 2, "claimed": 2}, "limited"),
        ({"state": "ready"}, {**WORKS, "open_claims": 3, "claimed": 2}, "ready"),
        ({"state": "ready"}, {**WORKS, "rate": 2, "starts_left": 0.9}, "limited"),
        ({"state": "ready"}, {**WORKS, "rate": 2, "starts_left": 1.0}, "ready"),
        ({"state": "ready"}, {**WORKS, "is_paused": True}, "paused"),
        ({"state": "ready"}, {}, "no_worker"),
    ],
)
def test_the_cause_follows_from_the_row_and_the_numbers(row, stats, cause):
    row = TaskRow(**{"id": "t", "queue": "q", "name": "f", **row})
    assert cause == cause_of(row, QueueStats(queue="q", **stats), now=1_000)


@pytest.mark.parametrize(
    ("deaths", "is_barred", "cause"), [(1, True, "ready"), (2, True, "suspect"), (2, False, "ready")]
)
def test_a_task_with_two_deaths_waits_while_each_worker_runs_another_suspect(deaths, is_barred, cause):
    row = TaskRow(id="t", queue="q", name="f", state="ready", deaths=deaths)
    assert cause == cause_of(row, QueueStats(queue="q", workers=1), now=0, around=Around(is_barred=is_barred))


def test_a_worker_that_holds_a_suspect_bars_a_task_with_two_deaths(queue):
    async def _play():
        store = await connect_tasks(queue.url)
        coordination = await connect(queue.url)
        name = f"{parsed_url(queue.url).namespace}/mail"
        workers = [Worker(session=(await coordination.grant(ttl_seconds=20)).id, queues=(name,)) for _ in range(3)]
        await store.enqueue([NewTask(id=each, queue=name, name="f", arguments=b"{}") for each in "ab"])
        for worker in workers[:2]:  # two sessions end under both tasks, one after another
            assert 2 == len((await store.turn(worker, want=4)).claims)
            await coordination.revoke(worker.session)
        assert () == (await store.turn(workers[2], want=4)).claims
        assert 2 == await store.control(Hasten(tasks=("a", "b")))
        (held,) = (await store.turn(workers[2], want=4)).claims
        (waits,) = {"a", "b"} - {held.task}
        barred = (await admin.why(queue.url, waits)).cause
        await store.close()
        await coordination.close()
        assert "suspect" == barred

    played(_play())


MISTAKES = """
task_admin.pause(URL, "no blanks") | queue is 'no blanks' | Write the name
task_admin.resume(URL, 7) | queue is 7 | Write the name
task_admin.tasks(URL, "") | queue is '' | Write the name
task_admin.tasks(URL, "q", most=0) | most is 0 | Ask for the next page
task_admin.tasks(URL, "q", most=10**9) | most is 1000000000 | Ask for the next page
task_admin.tasks(URL, "q", after="here") | after is 'here' | Leave it out
task_admin.tasks(URL, "q", after=5) | after is 5 | Leave it out
task_admin.tasks(URL, "q", states="dead") | states is 'dead' | Write states=
task_admin.tasks(URL, "q", states=("deed",)) | states is 'deed' | Did you mean 'dead'?
task_admin.show(URL, 7) | id of a task is 7 | Write handle.id
task_admin.why(URL, "") | id of a task is '' | Write handle.id
task_admin.cancel(URL, None) | id of a task is None | Write handle.id
task_admin.cancel_all(URL, "q", states=("dead",)) | states is 'dead' | A task that has ended
task_admin.redrive_all(URL, "q", states=("ready",)) | states is 'ready' | Only a dead or cancelled task
task_admin.redrive_all(URL, "q", states=()) | states is a tuple | Write states=
task_admin.purge(URL, "q") | states is a tuple | Write states=
task_admin.purge(URL, "q", "claimed") | states is 'claimed' | A claimed task cannot be purged
task_admin.purge(URL, "q", "don") | states is 'don' | Did you mean 'done'?
task_admin.limit(URL, "q", running=0) | running is 0 | To stop a queue
task_admin.limit(URL, "q", running=10**18) | running is 1000000000000000000 | To stop a queue
task_admin.limit(URL, "q", rate=1.5) | rate is 1.5 | To stop a queue
task_admin.limit(URL, "q", rate=1, per=timedelta(0)) | per is | Write per=
task_admin.stats("sqlite:///no-such-file.db") | store is | Check the URL
task_admin.written_call("", "{}") | name of the task is '' | Write the name of the function
task_admin.written_call("f", "[]") | arguments of f is '[]' | Write the arguments by name
task_admin.written_call("f", '{"a": 1e999}') | arguments of f is | Write the arguments by name
task_admin.written_call("f", '"\\ud800"') | arguments of f is | Write the arguments by name
task_admin.written_call("f", 100_000 * "[") | arguments of f is '[[[ | Write the arguments by name
task_admin.written_call("f", {"to": "ann"}) | arguments of f is a dict | Write the arguments by name
"""


@pytest.mark.parametrize(("call", "problem", "hint"), mistakes(MISTAKES))
def test_a_mistake_names_its_value_an_expectation_and_the_next_step(call, problem, hint):
    check_refused(call, problem, hint, task_admin=admin, URL="memory://mistakes")
