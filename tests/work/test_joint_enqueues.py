"""Enqueues of many callers go to the store together, and each caller hears of its own tasks alone."""

import asyncio

import pytest

from apportion.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from apportion.stores.task_values import NewTask
from apportion.work.joint_enqueues import MOST_BYTES, MOST_TASKS, JointEnqueues


class _Store:
    """A store that answers when it is let, and refuses what it is told to refuse."""

    def __init__(self):
        self.sent, self.errors = [], []
        self.is_let = asyncio.Event()

    async def enqueue(self, tasks):
        self.sent.append([each.id for each in tasks])
        await self.is_let.wait()
        for names, error in self.errors:
            if names & set(self.sent[-1]):
                raise error
        return tuple((each.id, each.id != "old") for each in tasks)


def _task(name, data=b"{}"):
    return NewTask(id=name, queue="q", name="n", arguments=data)


async def _joined(joint, store, *callers):
    """Let the first caller's enqueue be under way before the others come; return what each heard."""
    first = asyncio.ensure_future(joint.add(callers[0]))
    while not store.sent:
        await asyncio.sleep(0)
    others = [asyncio.ensure_future(joint.add(each)) for each in callers[1:]]
    await asyncio.sleep(0)
    store.is_let.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


async def _heard(*callers, errors=()):
    store = _Store()
    store.errors = list(errors)
    heard = await _joined(JointEnqueues(store.enqueue), store, *callers)
    return store.sent, heard


def test_those_that_come_while_one_is_under_way_go_together_and_hear_of_their_own():
    sent, heard = asyncio.run(_heard([_task("a")], [_task("b"), _task("old")], [_task("c")]))
    assert [["a"], ["b", "old", "c"]] == sent
    assert [(("a", True),), (("b", True), ("old", False)), (("c", True),)] == heard


def test_callers_of_one_moment_go_in_one_request():
    async def _together():
        store = _Store()
        store.is_let.set()
        joint = JointEnqueues(store.enqueue)
        await asyncio.gather(*(joint.add([_task(name)]) for name in "abcd"))
        return store.sent

    assert [["a", "b", "c", "d"]] == asyncio.run(_together())


def test_a_refused_task_costs_its_caller_alone():
    refused = InvalidInput("unique", "b", "another", "Choose another.")
    sent, heard = asyncio.run(_heard([_task("a")], [_task("b")], [_task("c")], errors=[({"b"}, refused)]))
    assert [["a"], ["b", "c"], ["b"], ["c"]] == sent
    assert [(("a", True),), refused, (("c", True),)] == heard


def test_an_enqueue_without_a_reply_names_the_tasks_of_its_caller():
    lost = OutcomeUnknown("store", ["b", "c"], "no reply")
    sent, heard = asyncio.run(_heard([_task("a")], [_task("b")], [_task("c")], errors=[({"b", "c"}, lost)]))
    assert [["a"], ["b", "c"]] == sent
    assert [("b",), ("c",)] == [each.ids for each in heard[1:]]


def test_a_store_that_is_away_is_asked_once_for_all():
    away = StoreUnavailable("store", "it is away")
    sent, heard = asyncio.run(_heard([_task("a")], [_task("b")], [_task("c")], errors=[({"b"}, away)]))
    assert ([["a"], ["b", "c"]], [away, away]) == (sent, heard[1:])


@pytest.mark.parametrize(
    "many",
    [[_task(f"t{number}") for number in range(MOST_TASKS)], [_task("large", b"x" * MOST_BYTES)]],
    ids=["many", "large"],
)
def test_a_request_has_a_bound(many):
    sent, _ = asyncio.run(_heard([_task("a")], [_task("b")], many, [_task("c")]))
    assert [["a"], ["b"], [each.id for each in many], ["c"]] == sent


def test_a_caller_that_is_cancelled_leaves_the_others_their_answers():
    async def _cancelled():
        store = _Store()
        joint = JointEnqueues(store.enqueue)
        callers = [asyncio.ensure_future(joint.add([_task(name)])) for name in "ab"]
        while not store.sent:
            await asyncio.sleep(0)
        callers[0].cancel()
        store.is_let.set()
        return await asyncio.gather(*callers, return_exceptions=True)

    left, answered = asyncio.run(_cancelled())
    assert isinstance(left, asyncio.CancelledError)
    assert (("b", True),) == answered


def test_callers_that_were_answered_together_are_awaited_for_half_as_long_at_most():
    async def _alone_after_two():
        loop, store = asyncio.get_running_loop(), _Store()
        joint = JointEnqueues(store.enqueue)
        both = [asyncio.ensure_future(joint.add([_task(name)])) for name in "ab"]
        loop.call_later(0.2, store.is_let.set)
        await asyncio.gather(*both)
        began = loop.time()
        await joint.add([_task("c")])
        return store.sent, loop.time() - began

    sent, took = asyncio.run(_alone_after_two())
    assert [["a", "b"], ["c"]] == sent
    assert 0.05 < took < 5


def test_callers_that_come_back_go_with_those_that_waited():
    async def _two():
        sent = []

        async def _send(tasks):
            sent.append(sorted(each.id for each in tasks))
            await asyncio.sleep(0.2)
            return tuple((each.id, True) for each in tasks)

        joint = JointEnqueues(_send)

        async def _caller(name):
            for number in range(3):
                await joint.add([_task(f"{name}{number}")])

        first = asyncio.ensure_future(_caller("a"))
        while not sent:
            await asyncio.sleep(0)
        await asyncio.gather(first, _caller("b"))
        return sent

    assert [["a0"], ["a1", "b0"], ["a2", "b1"], ["b2"]] == asyncio.run(_two())


def test_an_error_that_is_a_bug_reaches_each_caller():
    async def _broken(_):
        raise ZeroDivisionError

    async def _play():
        joint = JointEnqueues(_broken)
        return await asyncio.gather(*(joint.add([_task(name)]) for name in "ab"), return_exceptions=True)

    assert [ZeroDivisionError] * 2 == [type(each) for each in asyncio.run(_play())]


def test_a_prompt_store_answers_a_caller_that_is_alone_in_its_first_step():
    async def _alone():
        store, joint = _Store(), None
        store.is_let.set()
        joint = JointEnqueues(store.enqueue)
        adding = joint.add([_task("a")], is_prompt=True)
        with pytest.raises(StopIteration) as ended:
            adding.send(None)
        assert {asyncio.current_task()} == asyncio.all_tasks()
        return ended.value.value

    assert (("a", True),) == asyncio.run(_alone())


def test_beside_other_callers_even_a_prompt_store_is_asked_together():
    async def _together():
        store = _Store()
        store.is_let.set()
        joint = JointEnqueues(store.enqueue)

        async def _caller(name):
            with joint.callers:
                await asyncio.sleep(0)
                return await joint.add([_task(name)], is_prompt=True)

        await asyncio.gather(*map(_caller, "abcd"))
        return store.sent

    assert [["a", "b", "c", "d"]] == asyncio.run(_together())


def test_a_prompt_store_that_has_to_wait_is_asked_to_the_end_and_others_wait_for_it():
    async def _story():
        store = _Store()
        joint = JointEnqueues(store.enqueue)
        first = asyncio.ensure_future(joint.add([_task("a")], is_prompt=True))
        while not store.sent:
            await asyncio.sleep(0)
        others = [asyncio.ensure_future(joint.add([_task(name)], is_prompt=True)) for name in "bc"]
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert [["a"]] == store.sent
        store.is_let.set()
        heard = await asyncio.gather(first, *others, return_exceptions=True)
        return store.sent, heard[1:], first.cancelled(), asyncio.all_tasks() - {asyncio.current_task()}

    sent, heard, is_cancelled, left = asyncio.run(_story())
    assert [["a"], ["b", "c"]] == sent
    assert [(("b", True),), (("c", True),)] == heard
    assert is_cancelled
    assert set() == left


@pytest.mark.parametrize("error", [StoreUnavailable("q", "it is away"), OutcomeUnknown("q", ["a"], "no reply")])
def test_an_error_of_a_prompt_store_is_that_of_the_caller(error):
    async def _story():
        store = _Store()
        store.is_let.set()
        store.errors = [({"a"}, error)]
        with pytest.raises(type(error)):
            await JointEnqueues(store.enqueue).add([_task("a")], is_prompt=True)

    asyncio.run(_story())
