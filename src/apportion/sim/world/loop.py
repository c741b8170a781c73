"""The loop: asyncio under virtual time; a seed decides which of the ready callbacks runs next.

Time stands still while anything can run, and then leaps to the next timer, so an hour of waiting costs nothing. The
same seed gives the same run, in every process. The exception is code that iterates over a set of `str`
(PYTHONHASHSEED orders it). If all tasks wait and no timer is left, the loop raises `Deadlock`.

Refuses: sockets, threads, subprocesses and signals, and names a replacement for each. Calls that do not go through
asyncio's loop (clocks, random bytes, bare sockets) are fenced by `fences`.
Idea: the simulation of FoundationDB (C++), on a small scale.
"""

import asyncio
from asyncio import base_events, events
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop
from random import Random
from typing import Any, TypeVar

from apportion.errors import ApportionError
from apportion.sim.world.refusal import LeavesTheWorld, refusing

Result = TypeVar("Result")
Gate = Callable[[events.Handle], bool]


class Deadlock(ApportionError):
    """All tasks wait, and no event is left that could happen."""

    def __init__(self, now: float, waiting: list[str]) -> None:
        shown = ", ".join(waiting[:5]) or "nobody"
        super().__init__(
            f"at {now:.3f} s of virtual time nothing is left to happen, while these still wait: {shown}.",
            "Some task awaits an event that nothing will ever set. A World with story=True shows the steps before.",
        )


class SeededTask(asyncio.Task[Any]):
    """A task with a hash that does not depend on its address. So `asyncio.wait` has the same order in every run.

    `made_in` is the context that it runs in.
    """

    _number = 0
    made_in: Context

    def __hash__(self) -> int:
        if not self._number:
            loop = self.get_loop()
            assert isinstance(loop, VirtualLoop)  # noqa: S101 - its task factory is the only one that makes these
            loop.tasks += 1
            self._number = loop.tasks
        return self._number


class VirtualLoop(base_events.BaseEventLoop):
    """An event loop with virtual time and an order drawn from `order`.

    `gate` is called before a callback runs. If it returns False, the loop skips the callback. The gate keeps the
    callbacks of a paused process, and drops those of a dead one. `after_step` is called after each callback that ran.
    `refused` is called with the error of each call that a world refuses.
    """

    steps: int

    def __init__(
        self, order: Random, *, gate: Gate = lambda _: True, after_step: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self.refused: Callable[[LeavesTheWorld], None] = lambda _: None
        self._ready: list[events.Handle] = []  # each of them may be next
        self._order = order.random
        self._gate = gate
        self._after_step = after_step
        self._now = 0.0
        self.steps = 0
        self.tasks = 0
        self._at_steps: dict[int, Callable[[], object]] = {}
        self.set_task_factory(_task)  # type: ignore[arg-type]  # the stubs lag behind `context`

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._now

    def at_step(self, step: int, callback: Callable[[], object]) -> None:
        """Call a function right after the step of the loop with this number, between two turns of a running task."""
        self._at_steps[step] = callback

    def wake(self, handles: list[events.Handle]) -> None:
        """Make callbacks ready that the gate had kept."""
        self._ready.extend(handles)

    def _run_once(self) -> None:
        if not self._ready:
            self._leap()
        ready = self._ready
        index = int(self._order() * len(ready))
        ready[index], ready[-1] = ready[-1], ready[index]
        handle = ready.pop()
        if handle.cancelled() or not self._gate(handle):
            return
        self.steps += 1
        handle._run()
        if self._at_steps and (callback := self._at_steps.pop(self.steps, None)) is not None:
            callback()
        self._after_step()

    def _leap(self) -> None:
        scheduled = self._scheduled  # type: ignore[attr-defined]  # the base loop's heap of timers
        while scheduled and scheduled[0].cancelled():
            self._due(scheduled)
        if not scheduled:
            waiting = (task.get_coro() for task in asyncio.all_tasks(self))
            raise Deadlock(self._now, sorted(getattr(each, "__qualname__", "a task") for each in waiting))
        self._now = max(self._now, scheduled[0].when())
        while scheduled and scheduled[0].when() <= self._now:
            self._ready.append(self._due(scheduled))

    @staticmethod
    def _due(scheduled: list[events.TimerHandle]) -> events.TimerHandle:
        timer = heappop(scheduled)
        timer._scheduled = False  # type: ignore[attr-defined]
        return timer

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Keep a cancelled timer in the heap until its time has come."""

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: this loop has no selector, so no events come from one."""

    def _write_to_self(self) -> None:
        """Do nothing: no thread sleeps in a system call."""

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> events.Handle:
        """Do the same as `call_soon`: there are no threads."""
        return self.call_soon(callback, *args, context=context)


def settle(reply: "asyncio.Future[Result]", result: Result | Exception) -> None:
    """Give a future its result or its error, unless it is done."""
    if reply.done():
        return
    if isinstance(result, Exception):
        reply.set_exception(result)
    else:
        reply.set_result(result)


_SOCKETS = "World.send and World.receive, or the store that World.store returns"
for _name in (
    *("create_connection", "create_server", "create_unix_connection", "create_unix_server", "connect_accepted_socket"),
    *("create_datagram_endpoint", "sock_connect", "sock_accept", "sock_recv", "sock_recv_into", "sock_sendall"),
    *("sendfile", "sock_sendfile", "start_tls", "add_reader", "add_writer", "connect_read_pipe", "connect_write_pipe"),
    *("getaddrinfo", "getnameinfo"),
):
    setattr(VirtualLoop, _name, refusing(f"loop.{_name}", _SOCKETS))
for _name in ("subprocess_exec", "subprocess_shell"):
    setattr(VirtualLoop, _name, refusing(f"loop.{_name}", "World.spawn, which starts a process of this world"))
_AWAITED = "the function itself, or make it async and await it"
setattr(VirtualLoop, "run_in_executor", refusing("run_in_executor (a thread)", _AWAITED))  # noqa: B010
setattr(VirtualLoop, "add_signal_handler", refusing("loop.add_signal_handler", "World.kill and World.pause"))  # noqa: B010


def _task(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:  # noqa: ANN401
    context: Context = options.pop("context", None) or copy_context()
    task = SeededTask(coroutine, loop=loop, context=context, **options)
    task.made_in = context
    return task
