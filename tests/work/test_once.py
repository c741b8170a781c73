"""Effects of task functions that are noted before and after: at most once for a key, unless nobody can know."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import apportion
from apportion.errors import ClaimLost, InvalidInput, LeaseLost
from apportion.runtime.io_thread import io_thread
from apportion.stores.task_once import OnceStep
from apportion.stores.task_values import Receipt
from apportion.work.effects.effect_turn import EffectTurn
from tests.work.test_queue import played, queue, url

__all__ = ["queue", "url"]
SOON = timedelta(milliseconds=1)


def charging(queue, calls, **options):
    """Return a task that charges once, and fails at its first attempt in a way that the calls tell."""

    async def charge(cents: int) -> int:
        calls.append(cents)
        if len(calls) == 1:
            raise ConnectionError("no reply")
        return cents * 2

    @queue.task(first_delay=SOON, longest_delay=SOON, keep_result=True, failures=3)
    async def pay(cents: int) -> int:
        return await apportion.current_task().once(f"charge/{cents}", charge, cents, **options)

    return pay


async def drained(queue):
    """Run all tasks, the retries too."""
    for _ in range(3):
        await queue.drain(ahead=timedelta(seconds=5))


def test_an_effect_that_is_done_is_not_done_again_by_a_retry_or_another_task(queue):
    calls = []

    def charge(cents: int) -> int:
        calls.append(cents)
        return cents * 2

    @queue.task(first_delay=SOON, longest_delay=SOON, keep_result=True)
    async def pay() -> int:
        task = apportion.current_task()
        value = await task.once("charge/7", charge, 7)
        if task.attempt == 1:
            raise ValueError("after the effect")
        return value

    async def _play():
        handles = await queue.enqueue_many([pay.call(), pay.call()])
        await drained(queue)
        assert [14, 14] == [await each.result() for each in handles]
        assert [7] == calls

    played(_play())


@pytest.mark.parametrize(
    ("on_unknown", "expected", "state"),
    [
        ("run", [7, 7], "done"),
        ("fail", [7], "dead"),
        (lambda cents: cents * 3, [7], "done"),
        (lambda _: None, [7, 7], "done"),
    ],
    ids=["run", "fail", "it has happened", "it has not"],
)
def test_an_effect_without_an_end_follows_on_unknown(queue, on_unknown, expected, state):
    calls = []
    pay = charging(queue, calls, on_unknown=on_unknown)

    async def _play():
        handle = await queue.enqueue(pay.call(7))
        await drained(queue)
        assert (expected, state) == (calls, await handle.state())
        if state == "done":
            assert (21 if expected == [7] else 14) == await handle.result()

    played(_play())


def test_a_value_in_the_log_of_another_type_is_refused_before_the_effect(queue):
    errors = []

    def charge() -> str:
        return "paid"

    def counted() -> int:
        raise AssertionError("the effect is done")

    @queue.task()
    async def pay() -> None:
        once = apportion.current_task().once
        assert "paid" == await once("charge", charge)
        with pytest.raises(InvalidInput, match="value of charge in the log") as raised:
            await once("charge", counted)
        errors.append(raised.value.field)

    async def _play():
        await queue.enqueue(pay.call())
        await queue.drain()
        assert ["value of charge in the log"] == errors

    played(_play())


def test_a_second_try_in_the_same_run_follows_on_unknown_too(queue):
    seen = []

    async def charge(cents: int) -> int:
        seen.append("charged")
        raise ConnectionError(cents)

    async def asked(cents: int) -> int:
        seen.append("asked")
        return cents * 3

    @queue.task(keep_result=True)
    async def pay() -> int:
        once = apportion.current_task().once
        with pytest.raises(ConnectionError):
            await once("charge", charge, 7, on_unknown=asked)
        return await once("charge", charge, 7, on_unknown=asked)

    async def _play():
        handle = await queue.enqueue(pay.call())
        await queue.drain()
        assert (["charged", "asked"], 21) == (seen, await handle.result())

    played(_play())


def test_a_second_caller_waits_for_the_first(queue):
    seen, may_end = [], asyncio.Event()

    async def charge() -> str:
        seen.append("begun")
        await may_end.wait()
        return "paid"

    @queue.task(keep_result=True)
    async def pay(name: str) -> str:
        value = await apportion.current_task().once("charge", charge)
        seen.append(name)
        return value

    async def _play():
        handles = await queue.enqueue_many([pay.call("a"), pay.call("b")])
        async with queue.worker(concurrency=2):
            while await all_states(handles) != ["claimed", "claimed"] or not seen:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.15)  # the second asks again and again
            assert ["begun"] == seen
            may_end.set()
            assert ["paid", "paid"] == [await each.result() for each in handles]
        assert ["begun", "a", "b"] == sorted(seen, key=lambda each: each != "begun")[:1] + sorted(seen[1:])

    played(_play())


def test_two_calls_at_once_in_one_run_call_the_function_and_the_check_once(queue):
    seen = []

    async def charge() -> str:
        seen.append("charged")
        await asyncio.sleep(0.01)
        if seen == ["charged"]:
            raise ConnectionError
        return "paid"

    async def asked() -> str | None:
        seen.append("asked")
        await asyncio.sleep(0.01)

    @queue.task(keep_result=True)
    async def pay() -> list[str]:
        once = apportion.current_task().once
        with pytest.raises(ConnectionError):
            await once("charge", charge)
        calls = [once("charge", charge, on_unknown=asked) for _ in range(3)]
        return [*await asyncio.gather(*calls), *await asyncio.gather(once("k", charge), once("other", charge))]

    async def _play():
        handle = await queue.enqueue(pay.call())
        await queue.drain()
        assert (5 * ["paid"], ["charged", "asked", *3 * ["charged"]]) == (await handle.result(), seen)

    played(_play())


def test_two_threads_of_one_plain_run_call_the_function_once(queue):
    calls = []

    def charge() -> int:
        calls.append(7)
        time.sleep(0.05)
        return len(calls)

    @queue.task(keep_result=True)
    def pay() -> list[int]:
        once = apportion.sync.current_task().once
        with ThreadPoolExecutor() as pool:
            return [each.result() for each in [pool.submit(once, "charge", charge) for _ in range(4)]]

    async def _play():
        handle = await queue.enqueue(pay.call())
        await queue.drain()
        assert [1, 1, 1, 1] == await handle.result()

    played(_play())


def test_the_call_after_a_cancelled_one_does_not_wait_for_it(queue):
    seen = []

    async def charge() -> int:
        seen.append("begun")
        await asyncio.sleep(0 if len(seen) > 1 else 30)
        return 7

    @queue.task(keep_result=True)
    async def pay() -> int:
        once = apportion.current_task().once
        calls = [asyncio.ensure_future(once("charge", charge)) for _ in range(3)]
        while not seen:
            await asyncio.sleep(0)
        for each in calls[:2]:  # the one that calls, and one that waits
            each.cancel()
        return await calls[2]

    async def _play():
        handle = await queue.enqueue(pay.call())
        await queue.drain()
        assert (7, ["begun", "begun"]) == (await handle.result(), seen)

    played(_play())


def test_a_call_within_the_effect_of_its_own_key_is_refused(queue):
    @queue.task(failures=1)
    async def pay() -> None:
        once = apportion.current_task().once
        await once("charge", once, "other", once, "charge", print)

    async def _play():
        handle = await queue.enqueue(pay.call())
        await queue.drain()
        assert "another key" in (await io_thread().hop(queue._opened.row(handle.id))).reason

    played(_play())


async def all_states(handles):
    return [await each.state() for each in handles]


def test_the_end_of_an_effect_counts_unless_another_run_has_taken_it_over(queue):
    outcomes = []

    @queue.task()
    async def pay() -> None:
        task = apportion.current_task()

        async def charge() -> int:
            await queue.release(task.receipt)  # as if another worker had it now
            return 7

        outcomes.append(await task.once("charge", charge))
        with pytest.raises(ClaimLost):
            await task.once("another", charge)
        store = await io_thread().hop(queue._opened.store())
        stolen = OnceStep(
            scope=task.claim.queue, key="charge", receipt=Receipt(task="x", attempt=1, session=1), value=b"1"
        )
        outcomes.append((await io_thread().hop(store.once(stolen))).found)

    async def _play():
        await queue.enqueue(pay.call())
        async with queue.worker(concurrency=1):
            while len(outcomes) < 2:
                await asyncio.sleep(0.01)
        assert [7, "refused"] == outcomes[:2]

    played(_play())


def test_a_plain_function_calls_once_without_await(queue):
    calls = []

    async def never() -> None: ...

    @queue.task(keep_result=True)
    def pay(cents: int) -> int:
        with pytest.raises(InvalidInput, match="a plain function"):
            apportion.sync.current_task().once("other", never, on_unknown="run")
        return apportion.sync.current_task().once("charge", calls.append, cents) or len(calls)

    async def _play():
        handle = await queue.enqueue(pay.call(7))
        await queue.drain()
        assert (1, [7]) == (await handle.result(), calls)

    played(_play())


def test_mistakes_are_named_before_the_effect_and_a_value_after_it(queue):
    errors, calls = [], []

    async def call(value):
        calls.append(1)
        return value

    @queue.task()
    async def pay() -> None:
        once = apportion.current_task().once
        for step in (
            lambda: once("", call, 1),
            lambda: once("k", 7),
            lambda: once("k", call, 1, on_unknown="retry"),
            lambda: once("set", call, {object()}),
            lambda: once("large", call, "x" * 70_000),
        ):
            with pytest.raises(InvalidInput) as raised:
                await step()
            errors.append(str(raised.value).partition(" is ")[0])

    async def _play():
        await queue.enqueue(pay.call())
        drained = await queue.drain()
        assert (["key", "function", "on_unknown", "value of set", "value of large"], 2) == (errors, len(calls))
        assert 1 == drained.done

    played(_play())


def test_verbs_of_a_run_without_time_left_ask_no_store(queue, monkeypatch):
    raised = []

    @queue.task()
    async def pay() -> None:
        task = apportion.current_task()
        monkeypatch.setattr(type(task.desk), "seconds_left", lambda *_: 0.0)
        monkeypatch.setattr(type(task.desk), "transactions", None)
        verbs = [
            lambda: task.progress(0.5),
            lambda: task.once("k", print),
            lambda: task.complete("no connection"),
            lambda: task.transaction().__aenter__(),
            lambda: task.extend(SOON),
        ]
        for each in verbs:
            with pytest.raises(LeaseLost):
                await each()
            raised.append(each)
        monkeypatch.undo()

    async def _play():
        await queue.enqueue(pay.call())
        await queue.drain()
        assert 5 == len(raised)

    played(_play())


def test_workers_with_equal_receipts_do_not_wait_for_each_other():
    receipt = Receipt(task="t", attempt=1, session=1)

    async def _step():
        return "begun"

    async def _play():
        held = EffectTurn(object(), receipt, "charge")
        assert "begun" == await io_thread().hop(held.begun(_step))
        other = EffectTurn(object(), receipt, "charge")  # as after a restore of the store
        assert "begun" == await asyncio.wait_for(io_thread().hop(other.begun(_step)), 5)

    played(_play())
