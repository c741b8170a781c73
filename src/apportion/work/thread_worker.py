"""Thread worker: a worker for programs without an event loop, on a loop in a thread of its own.

Plain task functions run in threads of their own. Async ones run on the event loop of the worker's thread. The lease is
renewed on the I/O thread, so no task function blocks the renewal.
Promises: SIGTERM makes the worker leave. `until_left` and the block end only after the worker has left.
"""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from contextvars import copy_context

from apportion.runtime.blocks import OnlySync, Raised
from apportion.runtime.signals import leaving_on_sigterm
from apportion.work.worker import QueueWorker


class ThreadWorker(OnlySync):
    """A worker that runs during a `with` block; see `apportion.sync.Queue.worker`."""

    _call = "queue.worker()"

    def __init__(self, worker: QueueWorker) -> None:
        self._worker = worker
        self._began: Future[None] = Future()
        self._over: Future[None] = Future()
        self._asked = asyncio.Event()
        self._stack = ExitStack()

    def __enter__(self) -> "ThreadWorker":
        self._enter_once()
        self._loop = asyncio.new_event_loop()
        target = copy_context().run
        thread = threading.Thread(target=target, args=(self._run,), name="apportion-worker", daemon=True)
        with ExitStack() as stack:
            stack.callback(self._leave)  # Ctrl-C may come before the worker has begun
            thread.start()
            self._began.result()
            stack.enter_context(leaving_on_sigterm(self._leave))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: *Raised) -> None:
        self._stack.close()
        self._over.result()

    def until_drained(self) -> None:
        """Wait until no task of the queue is ready and no task runs in this worker."""
        asyncio.run_coroutine_threadsafe(self._worker.until_drained(), self._loop).result()

    def until_left(self) -> None:
        """Wait until the worker has left, on SIGTERM or an error. Raise the error that ended it, if there is one."""
        self._over.result()

    def _leave(self) -> None:
        with suppress(RuntimeError):  # the worker has left already
            self._loop.call_soon_threadsafe(self._asked.set)

    def _run(self) -> None:
        """Run the worker in this thread, until it has to leave."""
        with _Told(self._began, self._over), asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        async with self._worker:
            self._began.set_result(None)
            await self._asked.wait()


class _Told:
    """A block around the life of a worker. Its end sets the futures of the start and of the end, if they are open."""

    def __init__(self, began: "Future[None]", over: "Future[None]") -> None:
        self._began, self._over = began, over

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> bool:
        for each in (self._began, self._over):
            if not each.done():
                each.set_result(None) if error is None else each.set_exception(error)
        return True
