"""Tasks with a key: in order, one at a time, in the worker that owns the lane of the key."""

import asyncio
import json
import random
import sqlite3
from contextlib import closing
from datetime import timedelta
from itertools import count

import pytest

import apportion
from apportion.errors import InvalidInput
from apportion.model.epoch import FencingToken
from apportion.stores.catalog import administration
from apportion.stores.memory.tasks import MemoryTasks
from apportion.work import admin, claimant
from apportion.work.children.child import claim_of
from apportion.work.children.children import Job, _order
from apportion.work.claimant import Claimant
from apportion.work.facade import Queue
from tests.work.lanes.test_lanes import claim as claim_in

TTL = timedelta(seconds=2)
PARTITIONS = 8
_numbers = count()


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return f"memory://keyed-{next(_numbers)}" if request.param == "memory" else f"sqlite:///{tmp_path}/work.db"


def played(play):
    return asyncio.run(asyncio.wait_for(play, 30))


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0.005)


def member(name, **options):
    return apportion.LaneMember(member_id=name, settle=timedelta(0), **options)


class Log:
    """The runs of tasks as (key, number) in their order, and the keys that run now."""

    def __init__(self):
        self.runs, self.now, self.overlaps = [], set(), 0

    async def run(self, key, number, seconds=0.0):
        self.overlaps += key in self.now
        self.now.add(key)
        await asyncio.sleep(seconds)
        self.now.discard(key)
        self.runs.append((key, number))


def in_order(runs):
    """Return the numbers of each key in the order of their runs."""
    keys = {}
    for key, number in runs:
        keys.setdefault(key, []).append(number)
    return keys


def test_two_workers_run_the_tasks_of_each_key_in_order_and_one_at_a_time(url):
    queue, log = Queue(url, "q", lease_ttl=TTL, partitions=PARTITIONS), Log()

    @queue.task()
    async def work(key: str, number: int) -> None:
        await log.run(key, number, random.random() / 200)

    async def _play():
        calls = [(f"k{key}", number) for number in range(10) for key in range(20)]
        await queue.enqueue_many([work.call(*each).options(key=each[0]) for each in calls])
        async with queue.worker(member=member("a")), queue.worker(member=member("b")):
            await until(lambda: len(log.runs) == len(calls))
        assert {f"k{key}": list(range(10)) for key in range(20)} == in_order(log.runs)
        assert 0 == log.overlaps

    played(_play())


def test_a_task_knows_its_key_and_the_token_of_its_lane(url):
    queue, seen = Queue(url, "q", lease_ttl=TTL, partitions=PARTITIONS), []

    @queue.task()
    async def work() -> None:
        task = apportion.current_task()
        seen.append((task.key, task.key_token))

    async def _play():
        await queue.enqueue(work.call(), key="tenant-42")
        await queue.enqueue(work.call())
        async with queue.worker(member=member("a")):
            await until(lambda: len(seen) == 2)
        ((_, token),) = [each for each in seen if each[0] == "tenant-42"]
        assert (None, None) in seen
        assert ("work.q/7", True) == (token.resource, token.holder.startswith("a "))

    played(_play())


def test_drain_runs_tasks_with_a_key(url):
    queue, log = Queue(url, "q", lease_ttl=TTL, partitions=PARTITIONS), Log()

    @queue.task()
    async def work(key: str, number: int) -> None:
        await log.run(key, number)

    async def _play():
        calls = [work.call(f"k{each}", each).options(key=f"k{each}") for each in range(30)]
        await queue.enqueue_many(calls)
        assert calls == await queue.pending(work)
        drained = await queue.drain()
        assert (30, 30) == (drained.done, len(log.runs))

    played(_play())


def test_lanes_that_come_during_a_turn_are_claimed_at_once(monkeypatch):
    queue, log, turn = (
        Queue("memory://slow", "q", lease_ttl=timedelta(seconds=90), partitions=1),
        Log(),
        MemoryTasks.turn,
    )

    @queue.task()
    async def work(key: str, number: int) -> None:
        await log.run(key, number)

    async def _turn(self, worker, settlements=(), *, want=0):
        """Answer a worker without lanes late."""
        answer = await turn(self, worker, settlements, want=want)
        await asyncio.sleep(0.2 if want and not worker.lanes else 0)
        return answer

    async def _play():
        await queue.enqueue(work.call("k", 1), key="k")
        assert 1 == (await queue.drain()).done

    monkeypatch.setattr(MemoryTasks, "turn", _turn)
    monkeypatch.setattr(claimant, "_POLL_SECONDS", 60.0)  # the wake-up is needed
    played(_play())


@pytest.mark.slow
@pytest.mark.parametrize("column", ["incarnation", "epoch", "session", "holder"])
@pytest.mark.parametrize("value", ["'x'", "x'ff00'", "CAST(x'ff' AS TEXT)"])
def test_the_token_of_a_damaged_lane_is_forgotten(tmp_path, column, value):
    queue, log = Queue(f"sqlite:///{tmp_path}/work.db", "q", lease_ttl=TTL, partitions=PARTITIONS), Log()

    @queue.task()
    async def work(key: str, number: int) -> None:
        await log.run(key, number)

    async def _play():
        for number in (1, 2):
            await queue.enqueue(work.call("k", number), key="k")
            assert 1 == (await queue.drain()).done
            with closing(sqlite3.connect(tmp_path / "work.db", timeout=20)) as connection, connection:
                connection.execute(f"UPDATE lane SET {column} = {value}")

    played(_play())


@pytest.mark.parametrize("mark", ["0", "'x'"])
def test_marks_that_put_all_tasks_of_a_key_first_cost_no_order_and_no_worker(tmp_path, mark):
    queue, log = Queue(f"sqlite:///{tmp_path}/work.db", "q", lease_ttl=TTL, partitions=1), Log()

    @queue.task()
    async def work(key: str, number: int) -> None:
        await log.run(key, number)

    async def _play():
        await queue.enqueue_many([work.call("a", each).options(key="a") for each in range(5)])
        with closing(sqlite3.connect(tmp_path / "work.db", isolation_level=None)) as file:
            file.execute(f"UPDATE task SET behind = {mark} WHERE behind")
            file.execute("UPDATE task SET behind = 0 WHERE pos = 5")
        assert 5 == (await queue.drain()).done
        assert [("a", each) for each in range(5)] == log.runs

    played(_play())


@pytest.mark.slow
def test_a_lane_whose_holder_is_damaged_is_mended_by_its_owner(tmp_path):
    queue, log = Queue(f"sqlite:///{tmp_path}/work.db", "q", lease_ttl=TTL, partitions=1), Log()

    @queue.task()
    async def work(key: str, number: int) -> None:
        await log.run(key, number)

    async def _play():
        async with queue.worker(member=member("a")):
            await queue.enqueue(work.call("a", 0), key="a")
            await until(lambda: log.runs)
            with closing(sqlite3.connect(tmp_path / "work.db", isolation_level=None)) as file:
                file.execute("UPDATE lane SET holder = 'nobody'")
            waiting = await queue.enqueue(work.call("a", 1), key="a")
            assert "fenced" == (await admin.why(queue.url, waiting.id)).cause
            await until(lambda: len(log.runs) == 2)

    played(_play())


@pytest.mark.slow
def test_a_lane_whose_token_is_damaged_upwards_is_told_and_mended_by_its_owner(tmp_path, caplog):
    path = tmp_path / "work.db"
    queue, log = Queue(f"sqlite:///{path}", "q", lease_ttl=TTL, partitions=1), Log()

    @queue.task()
    async def work(key: str, number: int) -> None:
        await log.run(key, number)

    def seen():
        with closing(sqlite3.connect(path)) as file:
            return file.execute("SELECT epoch FROM lane").fetchall()

    async def _play():
        async with queue.worker(member=member("a")):
            await queue.enqueue(work.call("a", 0), key="a")
            await until(lambda: log.runs)
            before = seen()
            with closing(sqlite3.connect(path, isolation_level=None)) as file:
                file.execute("UPDATE lane SET epoch = 1 << 62")
            [damage] = [each for each in await administration(queue.url).inspect() if each.subject == "rows of tasks"]
            assert ("error", "lane 0 of apportion/q") == (damage.verdict, damage.found)
            waiting = await queue.enqueue(work.call("a", 1), key="a")
            found = await admin.why(queue.url, waiting.id)
            assert ("fenced", True) == (found.cause, "mends the row" in found.next_step)
            await until(lambda: len(log.runs) == 2)
            assert before == seen()

    caplog.set_level("WARNING", "apportion.work")
    played(_play())
    told = [each.getMessage() for each in caplog.records if "lane 0 of" in each.getMessage()]
    assert [("later owner", "WARNING"), ("never granted", "ERROR")] == [
        (next(words for words in ("later owner", "never granted") if words in text), record.levelname)
        for text, record in zip(
            told, [each for each in caplog.records if "lane 0 of" in each.getMessage()], strict=True
        )
    ]


def test_another_number_of_partitions_than_the_store_has_is_refused(url):
    queue, other = (Queue(url, "q", lease_ttl=TTL, partitions=each) for each in (PARTITIONS, 2 * PARTITIONS))

    @queue.task()
    async def work() -> None: ...

    async def _play():
        await queue.enqueue(work.call(), key="k")
        with pytest.raises(InvalidInput, match="partitions"):
            await other.enqueue(work.call(), key="k")
        with pytest.raises(InvalidInput, match="partitions"):
            async with other.worker():
                pass
        await queue.close()

    played(_play())


def test_a_running_task_of_a_lost_lane_ends_before_the_next_owner_runs_its_key(url):
    queue, log = Queue(url, "q", lease_ttl=TTL, partitions=1), Log()
    begun = asyncio.Event()

    @queue.task()
    async def work(number: int) -> None:
        begun.set()
        await log.run("k", number, 0.3)

    async def _play():
        await queue.enqueue_many([work.call(each).options(key="k") for each in range(3)])
        async with queue.worker(member=member("a", drain_timeout=timedelta(seconds=0.05))) as first:
            await begun.wait()
            async with queue.worker(member=member("b", weight=1.0)):
                first._claimant.leave()
                await until(lambda: len(log.runs) == 3)
        assert ([("k", 0), ("k", 1), ("k", 2)], 0) == (log.runs, log.overlaps)

    played(_play())


def test_a_loop_over_claims_gets_tasks_with_a_key(url):
    queue = Queue(url, "q", lease_ttl=TTL, partitions=PARTITIONS)

    @queue.task()
    async def work(number: int) -> None: ...

    async def _play():
        await queue.enqueue_many([work.call(each).options(key="k") for each in range(3)])
        seen = []
        async for task in queue.claims(concurrency=4, member=member("a")):
            async with task:
                seen.append((task.key, task.arguments["number"], task.call.key))
            if len(seen) == 3:
                break
        assert [("k", 0, "k"), ("k", 1, "k"), ("k", 2, "k")] == seen

    played(_play())


def test_a_worker_whose_id_another_takes_over_ends_its_block(url):
    queue, log = Queue(url, "q", lease_ttl=TTL, partitions=PARTITIONS), Log()

    @queue.task()
    async def work(number: int) -> None:
        await log.run("k", number)

    async def _first(entered):
        async with queue.worker(member=member("a")):
            entered.set()
            await asyncio.Event().wait()
        return "ended"

    async def _play():
        entered = asyncio.Event()
        first = asyncio.ensure_future(_first(entered))
        await entered.wait()
        async with queue.worker(member=member("a", replace=True)):
            assert "ended" == await first
            await queue.enqueue(work.call(7), key="k")
            await until(lambda: log.runs)
        assert [("k", 7)] == log.runs

    played(_play())


def test_a_lane_that_moves_before_the_block_has_begun_costs_no_error(url, monkeypatch):
    queue, errors, given = Queue(url, "q", lease_ttl=TTL, partitions=PARTITIONS), [], []
    begin, settle = Claimant.begin, Claimant.settle

    async def _begun_slowly(*given, hears, **options):
        claimant = await begin(*given, hears=hears, **options)
        hears.claimed([claim_in(7)], 1)
        hears.moved(frozenset({7}))
        await asyncio.sleep(0.05)
        return claimant

    def _settled(self, settlements, begun=()):
        given.extend(each.reason for each in settlements)
        settle(self, settlements, begun)

    async def _play():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        async with queue.worker(member=member("a")):
            await until(lambda: given)
        assert ([], ["its lane has moved"]) == (errors, given)

    monkeypatch.setattr(Claimant, "begin", _begun_slowly)
    monkeypatch.setattr(Claimant, "settle", _settled)
    played(_play())


class _Desk:
    def seconds_left(self, _):
        return 1.0


def test_a_child_process_gets_the_key_and_the_token_of_its_lane():
    token = FencingToken(resource="work.q/7", holder="a 1", incarnation=3, epoch=9)
    claim = claim_in(7)._replace(lane_token=token)
    job = Job(function=None, place=("m", "f"), claim=claim, incarnation=3, desk=_Desk())
    found = claim_of(json.loads(json.dumps(_order("memory://", job))))
    shown = (found.key, found.lane_token.resource, found.lane_token.holder, str(found.lane_token))
    assert (claim, ("k7", "work.q/7", "a 1", "3:9")) == (found, shown)


def test_a_keyed_task_of_a_transaction_is_there_if_that_commits(tmp_path):
    queue, log = Queue(f"sqlite:///{tmp_path}/work.db", "q", lease_ttl=TTL, partitions=PARTITIONS), Log()

    @queue.task()
    async def work(number: int) -> None:
        await log.run("k", number)

    async def _play():
        await queue.enqueue(work.call(0), key="k")
        with closing(sqlite3.connect(tmp_path / "work.db", timeout=20)) as connection:
            for number, ends in ((1, connection.commit), (9, connection.rollback), (2, connection.commit)):
                connection.execute("CREATE TABLE IF NOT EXISTS mine (number INTEGER)")
                connection.execute("INSERT INTO mine VALUES (?)", (number,))
                await queue.enqueue(work.call(number), key="k", within=connection)
                ends()
        await queue.drain()
        assert [("k", 0), ("k", 1), ("k", 2)] == log.runs

    played(_play())
