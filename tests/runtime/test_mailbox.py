"""Calls from other threads to an event loop come in order, in their contexts, and share a wake-up."""

import asyncio
import gc
import threading
from contextvars import ContextVar
from functools import partial
from weakref import ref

import pytest

from apportion.runtime.mailbox import send_to

NAME: ContextVar[str] = ContextVar("name", default="")


class Woken(asyncio.SelectorEventLoop):
    """A loop that counts its wake-ups by others."""

    wakeups = 0

    def call_soon_threadsafe(self, *args, **rest):
        self.wakeups += 1
        return super().call_soon_threadsafe(*args, **rest)


def played(play):
    """Run a coroutine function with a new loop."""
    with asyncio.Runner(loop_factory=Woken) as runner:
        return runner.run(play(runner.get_loop()))


def test_calls_that_come_together_share_a_wake_up_and_keep_their_order_and_contexts():
    async def play(loop):
        made = []

        def _send():
            for number in range(100):
                NAME.set(f"name-{number}")
                send_to(loop, lambda number=number: made.append((number, NAME.get())))

        sender = threading.Thread(target=_send)
        sender.start()
        sender.join()  # the loop does not run meanwhile
        await asyncio.sleep(0)
        return made, loop.wakeups

    made, wakeups = played(play)
    assert [(number, f"name-{number}") for number in range(100)] == made
    assert 1 == wakeups


def test_a_call_that_is_sent_while_calls_are_made_is_made_too():
    async def play(loop):
        made = []
        send_to(loop, lambda: send_to(loop, partial(made.append, 1)))
        await asyncio.sleep(0.01)
        return made

    assert [1] == played(play)


def test_no_call_of_many_threads_is_lost():
    async def play(loop):
        made = []

        def _send(thread):
            for number in range(2_000):
                send_to(loop, partial(made.append, (thread, number)))

        await asyncio.gather(*(asyncio.to_thread(_send, thread) for thread in range(4)))
        await asyncio.sleep(0)
        return made

    made = played(play)
    for thread in range(4):
        assert list(range(2_000)) == [number for sender, number in made if sender == thread]


def test_a_call_that_raises_costs_itself_alone():
    async def play(loop):
        made, failed = [], []
        loop.set_exception_handler(lambda _, context: failed.append(type(context["exception"])))
        for call in (partial(made.append, 1), lambda: 1 // 0, partial(made.append, 2)):
            send_to(loop, call)
        await asyncio.sleep(0.01)
        return made, failed

    assert ([1, 2], [ZeroDivisionError]) == played(play)


def test_a_closed_loop_refuses_each_call_and_is_not_kept_alive():
    loop = asyncio.new_event_loop()
    send_to(loop, int)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            send_to(loop, int)
    gone = ref(loop)
    del loop
    gc.collect()
    assert gone() is None
