"""Handlers: which callables are taken, when they are called again, and which of them owe progress."""

import asyncio
import functools
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest

import apportion
from apportion import sync
from apportion.errors import InvalidInput
from apportion.groups.handlers import Handlers
from apportion.groups.holdings import GroupChange, Holdings
from apportion.groups.log import log
from apportion.model.epoch import FencingToken
from apportion.runtime.handler_calls import awaited
from apportion.runtime.io_thread import io_thread

TTL = timedelta(seconds=1)
PATIENCE_SECONDS = 20
RESTING = float("inf")


@pytest.fixture
def opened(tmp_path):
    """Return what opens a member of one group."""

    def open_one(member_id, *, opening=apportion.open_group, partitions=4, **options):
        url = f"sqlite:///{tmp_path / 'group.db'}"
        return opening(url, "g", partitions=partitions, member_id=member_id, lease_ttl=TTL, **options)

    return open_one


def run(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE_SECONDS))


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0.01)


def until_in_threads(is_so):
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < ends
        threading.Event().wait(0.01)


class Clock:
    now = 0.0

    def elapsed(self):
        return self.now


class Served:
    """Handlers over holdings of partitions 1 and 2 on a clock by hand, told of changes by hand."""

    def __init__(self, on_gained, on_lost=None, **options):
        self.clock = Clock()
        self.holdings = Holdings(self.clock, quiet=lambda partitions: None, told=lambda: None)
        self.holdings.deadline = 1000.0
        self.holdings.grant({each: token(each) for each in (1, 2)})
        self._changes = asyncio.Queue()
        calls = awaited("on_gained", on_gained), awaited("on_lost", on_lost)
        self.handlers = Handlers(self._told(), self.holdings, *calls, **{"tell": log, "drain_seconds": 9.0} | options)
        self.running = asyncio.ensure_future(self.handlers.run())

    def tell(self, *, gained=(), lost=()):
        self._changes.put_nowait(GroupChange(gained=gained, lost=lost))

    async def end(self):
        self._changes.put_nowait(None)
        await self.running

    async def _told(self):
        while (change := await self._changes.get()) is not None:
            yield change


def token(partition):
    return FencingToken(resource=f"g/{partition}", holder="me", incarnation=1, epoch=1)


def test_only_a_handler_that_runs_owes_progress():
    seen, gates = [], {"gained": asyncio.Event(), "lost": asyncio.Event()}

    async def gained(partition, token):
        seen.append(("gained", served.holdings.oldest()))
        await gates["gained"].wait()

    async def lost(partition, token):
        seen.append(("lost", served.holdings.oldest()))
        await gates["lost"].wait()

    async def story():
        nonlocal served
        served = Served(gained, lost)
        served.clock.now = 5.0
        served.tell(gained=(1,))
        await until(lambda: [("gained", (5.0, 1))] == seen)
        gates["gained"].set()
        await until(lambda: (RESTING, 1) == served.holdings.oldest())
        served.clock.now = 99.0
        served.tell(lost=(1,))
        await until(lambda: ("lost", (99.0, 1)) == seen[-1])
        gates["lost"].set()
        await until(lambda: served.holdings.oldest() is None)
        await served.end()

    served = None
    run(story())


def test_a_handler_that_has_failed_owes_no_progress_until_it_is_called_again():
    async def gained(partition, token):
        raise OSError("not yet")

    async def story():
        served = Served(gained)
        served.tell(gained=(1,))
        await until(lambda: served.handlers.failing)
        assert ({1: "OSError: not yet"}, (RESTING, 1)) == (served.handlers.failing, served.holdings.oldest())
        await served.end()

    run(story())


def test_a_handler_that_waits_for_its_turn_owes_no_progress_and_is_not_called_when_the_partition_was_lost():
    called, gate = [], asyncio.Event()

    async def gained(partition, token):
        called.append(("gained", partition))
        await gate.wait()

    async def lost(partition, token):
        called.append(("lost", partition))

    async def story():
        served = Served(gained, lost, at_once=1)
        served.clock.now = 5.0
        served.tell(gained=(1,))
        await until(lambda: called)
        served.clock.now = 4.0  # so that the second would be the oldest
        served.tell(gained=(2,))
        await until(lambda: 2 == len(served.holdings._holds))
        assert (5.0, 1) == served.holdings.oldest()
        served.tell(lost=(2,))
        await until(served._changes.empty)
        gate.set()
        await until(lambda: ("lost", 2) in called)
        await served.end()
        assert [("gained", 1), ("lost", 2), ("lost", 1)] == called

    run(story())


def ending(on_gained, on_lost, *, then, **options):
    """Let the session end once partition 1 was gained, hear of it again and again, and go on when `then` says so."""

    async def story():
        served = Served(on_gained, on_lost, **options)
        served.tell(gained=(1,))
        await until(lambda: served.holdings.oldest() is not None)
        await asyncio.sleep(0.01)
        served.clock.now = 1001.0
        while not then():
            served.holdings.cancel()
            await asyncio.sleep(0.005)
        await until(lambda: served.holdings.oldest() is None)
        served.tell(lost=(1,))
        await served.end()

    run(story())


@pytest.mark.parametrize("has_begun", [True, False])
def test_what_is_lost_with_the_session_is_lost_once_and_held_meanwhile(has_begun):
    calls = []

    async def gained(partition, token):
        await asyncio.sleep(0 if has_begun else 60)

    async def lost(partition, token):
        calls.append(("begins", partition, token.epoch))
        await asyncio.sleep(0.05)  # it is not cancelled by what says that the session is over
        calls.append(("ends", partition, token.epoch))

    ending(gained, lost, then=lambda: len(calls) > 1)
    assert [("begins", 1, 1), ("ends", 1, 1)] == calls


def test_an_on_lost_that_never_ends_is_given_up_with_the_time_of_a_drain(caplog):
    async def gained(partition, token):
        pass

    async def lost(partition, token):
        await asyncio.sleep(60)

    ending(gained, lost, then=lambda: "did not end in time" in caplog.text, drain_seconds=0.05)
    assert "a handler of partition 1 did not end in time; it is not called again" in caplog.text


def test_an_on_lost_that_fails_after_the_session_is_not_called_again(caplog):
    calls = []

    async def gained(partition, token):
        pass

    async def lost(partition, token):
        calls.append(partition)
        raise OSError("no disk")

    ending(gained, lost, then=lambda: "no disk" in caplog.text)
    assert [1] == calls


def test_who_hears_of_the_loss_before_the_end_is_not_cancelled_either():
    calls = []

    async def gained(partition, token):
        pass

    async def lost(partition, token):
        await asyncio.sleep(0.05)
        calls.append(partition)

    async def story():
        served = Served(gained, lost)
        served.tell(gained=(1,))
        await until(lambda: served.holdings.oldest() is not None)
        served.clock.now = 1001.0
        served.tell(lost=(1,))
        await asyncio.sleep(0.01)
        served.holdings.cancel()
        await until(lambda: calls)
        await served.end()

    run(story())
    assert [1] == calls


class Opener:
    """Not a function, and what it returns is awaited; its first calls raise before they return anything."""

    def __init__(self, failures):
        self.failures, self.opened = failures, set()

    def __call__(self, partition, token):
        if self.failures:
            raise self.failures.pop()
        return self.open(partition)

    async def open(self, partition):
        self.opened.add(partition)


def test_a_handler_that_raises_before_it_returns_an_awaitable_is_called_again(opened):
    async def story():
        opener = Opener([OSError("not yet")] * 2)
        async with opened("a", partitions=1) as group:
            serving = asyncio.ensure_future(group.serve(on_gained=opener))
            await until(lambda: group.failing)
            assert {0: "OSError: not yet"} == dict(group.failing)
            await until(lambda: {0} == opener.opened)
            await until(lambda: not group.failing)
            group.leave()
            await serving

    run(story())


async def opens(partition, token, *, into):
    into.add(partition)


class Inbox:
    """A callable that is awaited, and so is its method."""

    def __init__(self, opened):
        self.opened = opened

    async def __call__(self, partition, token):
        self.opened.add(partition)

    async def open(self, partition, token):
        self.opened.add(partition)

    def plain(self, partition, token):
        self.opened.add(partition)


def traced(handler):
    @functools.wraps(handler)
    def call(*given):
        return handler(*given)

    return call


@pytest.mark.parametrize(
    "made",
    [
        lambda into: functools.partial(opens, into=into),
        lambda into: lambda partition, token: opens(partition, token, into=into),
        lambda into: traced(Inbox(into).open),
        lambda into: Inbox(into).open,
        Inbox,
        lambda into: AsyncMock(side_effect=lambda partition, token: into.add(partition)),
    ],
    ids=["partial", "lambda", "decorated", "method", "object", "mock"],
)
def test_whatever_returns_an_awaitable_is_a_handler(opened, made):
    async def story():
        into = set()
        async with opened("a") as group:
            serving = asyncio.ensure_future(group.serve(on_gained=made(into)))
            await until(lambda: set(range(4)) == into)
            assert {} == group.failing
            group.leave()
            await serving

    run(story())


def plain(partition, token):
    raise AssertionError("called")


async def generates(partition, token):
    yield partition


@pytest.mark.parametrize(
    "handler",
    [plain, functools.partial(plain), Inbox(set()).plain, traced(plain), generates, "open"],
    ids=["function", "partial", "method", "decorated", "generator", "no callable"],
)
@pytest.mark.parametrize("name", ["on_gained", "on_lost"])
def test_a_plain_function_is_no_handler_of_an_async_group(opened, name, handler):
    async def story():
        async with opened("a") as group:
            with pytest.raises(InvalidInput, match=rf"(?s){name} is .*, expected an async function .*async def") as bad:
                await group.serve(**{name: handler})
            assert name == bad.value.field
            await group.changes().__anext__()  # nothing was begun

    run(story())


@pytest.mark.parametrize("handler", [lambda partition, token: None, Inbox(set()).plain.__call__])
def test_a_callable_that_turns_out_to_return_nothing_ends_serving_at_once_and_says_what_to_do(opened, handler):
    async def story():
        async with opened("a", partitions=1) as group:
            with pytest.raises(InvalidInput, match="result of on_gained is None, expected an awaitable") as bad:
                await group.serve(on_gained=handler)
            assert "async def" in bad.value.hint
            assert {} == group.failing

    run(story())


async def one(partition):
    raise AssertionError("called")


async def three(partition, token, more):
    raise AssertionError("called")


@pytest.mark.parametrize("handler", [one, three, functools.partial(one, 1)])
@pytest.mark.parametrize("name", ["on_gained", "on_lost"])
def test_a_handler_that_cannot_take_a_partition_and_its_token_is_refused_before_it_is_called(opened, name, handler):
    async def story():
        async with opened("a") as group:
            with pytest.raises(InvalidInput, match=rf"parameters of {name} is .*, expected a partition and its token"):
                await group.serve(**{name: handler})
            await group.changes().__anext__()  # nothing was begun

    run(story())
    plain = {name: lambda partition: None}
    with (
        opened("b", opening=sync.open_group) as group,
        pytest.raises(InvalidInput, match=rf"parameters of {name} is .*\n.*def {name}\(partition, token\)"),
    ):
        group.serve(**plain)


def test_who_cancels_serve_waits_for_on_lost_and_who_cancels_twice_does_not(opened):
    async def story():
        begun, over = [], []

        async def lost(partition, token):
            begun.append(partition)
            try:
                await asyncio.Event().wait()
            finally:
                over.append(partition)

        async def gained(partition, token):
            pass

        async with opened("a", drain_timeout=timedelta(seconds=0.1)) as group:
            serving = asyncio.ensure_future(group.serve(on_gained=gained, on_lost=lost))
            await group.wait_until_settled()
            await until(lambda: 4 == len(group._handlers._tasks))
            serving.cancel()
            await until(lambda: 4 == len(begun))
            assert not serving.done()
            serving.cancel()
            await asyncio.wait([serving])
            assert serving.cancelled()
            await until(lambda: 0 == len(group._handlers._tasks))

    run(story())


def test_a_sync_group_calls_its_handlers_in_threads_until_they_succeed(opened):
    calls, failures, io = [], [SystemExit(3), OSError("not yet")], io_thread()._thread

    def gained(partition, token):
        calls.append(("gained", partition, token.epoch, threading.current_thread()))
        if partition == 3 and failures:
            raise failures.pop()

    def lost(partition, token):
        calls.append(("lost", partition, token.epoch, threading.current_thread()))

    with opened("a", opening=sync.open_group) as group, ThreadPoolExecutor() as pool:
        serving = pool.submit(group.serve, on_gained=gained, on_lost=lost)
        until_in_threads(lambda: {3: "OSError: not yet"} == group.failing)
        until_in_threads(lambda: {3: "SystemExit: 3"} == group.failing)
        until_in_threads(lambda: 6 == len(calls) and not group.failing)
        assert not serving.done()
        group.leave()
        assert None is serving.result(PATIENCE_SECONDS)
    assert [("gained", 3, 1)] * 3 == [call[:3] for call in calls if call[:2] == ("gained", 3)]
    assert {("lost", partition, 1) for partition in range(4)} == {call[:3] for call in calls[6:]}
    assert not {io, threading.main_thread()} & {call[3] for call in calls}


@pytest.mark.parametrize(
    "handler",
    [opens, functools.partial(opens, into=set()), Inbox(set()), Inbox(set()).open, "open"],
    ids=["function", "partial", "object", "method", "no callable"],
)
@pytest.mark.parametrize("name", ["on_gained", "on_lost"])
def test_an_async_function_is_no_handler_of_a_sync_group(opened, name, handler):
    with opened("a", opening=sync.open_group) as group:
        with pytest.raises(InvalidInput, match=rf"(?s){name} is .*, expected a plain function .*open_group") as bad:
            group.serve(**{name: handler})
        assert name == bad.value.field
        with closing(group.changes()) as changes:
            assert (0, 1, 2, 3) == next(changes).gained


def test_a_plain_handler_that_turns_out_to_return_an_awaitable_ends_serving_at_once_and_says_what_to_do(opened):
    class Promise:
        def __await__(self):
            yield

    with (
        opened("a", opening=sync.open_group, partitions=1) as group,
        pytest.raises(InvalidInput, match=r"result of on_gained is .*, expected None"),
    ):
        group.serve(on_gained=lambda partition, token: Promise())


def test_a_sync_handler_may_use_its_group(opened):
    seen = []

    def gained(partition, token):
        with group.hold(partition) as held:
            seen.append((partition, token == held, list(group.members())))
        group.leave()

    with opened("a", opening=sync.open_group, partitions=1) as group:
        group.serve(on_gained=gained)
    assert [(0, True, ["a"])] == seen


@pytest.mark.slow
def test_what_a_thread_works_on_is_handed_over_when_it_has_ended_and_not_when_its_drain_is_over(opened):
    begun, done, ended = threading.Event(), threading.Event(), []

    def lost(partition, token):
        begun.set()
        assert done.wait(PATIENCE_SECONDS)
        ended.append(partition)

    drain = timedelta(seconds=0.2)
    with opened("a", opening=sync.open_group, partitions=2, drain_timeout=drain) as first, ThreadPoolExecutor() as pool:
        first.wait_until_settled()
        serving = pool.submit(first.serve, on_lost=lost)
        with opened("b", opening=sync.open_group, partitions=2) as second:
            assert begun.wait(PATIENCE_SECONDS)
            patience = first._participation.driver.parts.deadlines
            until_in_threads(lambda: patience._force_at)  # it was cancelled, as far as that can be done
            assert ([], []) == (ended, list(second.owned))
            done.set()
            until_in_threads(lambda: ended == list(second.owned) != [])
        first.leave()
        serving.result(PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_thread_that_never_ends_does_not_keep_its_group_from_ending(opened):
    begun, done = threading.Event(), threading.Event()

    def hang(partition, token):
        begun.set()
        assert done.wait(3 * PATIENCE_SECONDS)

    drain = timedelta(seconds=0.2)
    with opened("a", opening=sync.open_group, drain_timeout=drain) as group, ThreadPoolExecutor() as pool:
        serving = pool.submit(group.serve, on_gained=hang)
        assert begun.wait(PATIENCE_SECONDS)
        group.leave()
        assert None is serving.result(PATIENCE_SECONDS)
        assert not group.is_alive
    done.set()


SERVING = """
import sys
from apportion import sync

def say(what):
    return lambda partition, token: print(what, partition, flush=True)

try:
    with sync.open_group(sys.argv[1], "g", partitions=1) as group:
        group.serve(on_gained=say("gained"), on_lost=say("lost"))
finally:
    print("left", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, -signal.SIGINT)])
def test_a_sync_group_serves_until_the_process_is_asked_to_end(tmp_path, number, code):
    command = [sys.executable, "-c", SERVING, f"sqlite:///{tmp_path / 'group.db'}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert "gained 0\n" == process.stdout.readline()
        process.send_signal(number)
        assert ("lost 0\nleft\n", code) == (process.communicate(timeout=PATIENCE_SECONDS)[0], process.returncode)
