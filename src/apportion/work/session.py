"""The session of a worker: its part in the one lease that the process keeps in a store, and the end of that part.

Promises: `missed` is called before the store may give the tasks of the session to another worker. All workers of a
process share the lease. So a claim that one worker does not know may belong to another worker of the process.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from weakref import WeakKeyDictionary

from apportion.groups.session import GroupLease, SharedSessions
from apportion.runtime.simulated import clock_here
from apportion.stores.task_values import Receipt

_KEPT_FORMER = 16


class WorkerSession:
    """The session of one worker, on the I/O thread. `former` has earlier sessions, which this process outlived."""

    def __init__(self, shared: SharedSessions, ttl_seconds: float, *, missed: Callable[[int], None]) -> None:
        self._shared, self._ttl_seconds, self._missed = shared, ttl_seconds, missed
        self._clock, self._loop = clock_here(), asyncio.get_running_loop()
        self._lease: GroupLease | None = None
        self._deadline = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self.former: deque[int] = deque(maxlen=_KEPT_FORMER)
        self.open: set[Receipt] = set()
        self._strange: set[Receipt] = set()
        self._workers = _WORKERS.setdefault(shared, [])
        self._workers.append(self)

    @property
    def id(self) -> int | None:
        """The number of the session, which is that of its lease; None without a session."""
        return None if self._lease is None else self._lease.lease

    @property
    def incarnation(self) -> int:
        """The incarnation of the store in which the session began; 0 without a session."""
        return 0 if self._lease is None else self._lease.incarnation

    @property
    def is_over(self) -> bool:
        """Whether the session has ended, and `forget` was not called since."""
        lease = self._lease
        return lease is not None and lease.ended.is_set()

    def seconds_left(self) -> float:
        """Return the least number of seconds that the session lasts without another renewal; from any thread."""
        return self._deadline - self._clock.elapsed()

    async def join(self) -> None:
        """Begin a session, or join the session of the process. The errors are those of the store."""
        sessions = self._shared.sessions
        self._lease = await sessions.join(self._ttl_seconds, self._confirm, incarnation=0)

    def forget(self) -> int:
        """Leave a session, and return its number. The next turn tells the store that this process outlived it."""
        lease, self._lease = self._lease, None
        if lease is None:
            return 0
        lease.forfeit()
        self.former.append(lease.lease)
        return lease.lease

    def unknown(self, held: Collection[Receipt]) -> list[Receipt]:
        """Return the claims that no worker of this process knows, in order. `held` are all claims of the session.

        If the process has several workers, a claim must be unknown in two calls in a row. At the first call, the reply
        with this claim may still be on its way to another worker.
        """
        known = {receipt for worker in self._workers for receipt in worker.open}
        before, self._strange = self._strange, {each for each in held if each not in known}
        is_alone = len(self._workers) == 1
        return [each for each in held if each in self._strange and (is_alone or each in before)]

    async def give_up(self) -> int:
        """End the session for the whole process, and return its number. The store went back to an earlier state.

        That state may lack claims of the session. With the same session, a second claim could get the same receipt.
        """
        lease, number = self._lease, self.forget()
        if lease is not None:
            await lease.end(is_clear=False)
        return number

    async def end(self, *, is_clear: bool) -> None:
        """End the session unless other workers use it. `is_clear`: no task is claimed under the session any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._workers.remove(self)
        if self._lease is not None:
            await self._lease.end(is_clear=is_clear)
        await self._shared.let_go()

    def _confirm(self, deadline: float) -> None:
        self._deadline = deadline
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, self.seconds_left()), self._look)

    def _look(self) -> None:
        if self._lease is None:
            return
        if self.seconds_left() <= 0:
            self._missed(self._lease.lease)
        else:  # the timer may come a little early: the loop has another clock than the session
            self._confirm(self._deadline)


_WORKERS: WeakKeyDictionary[SharedSessions, list[WorkerSession]] = WeakKeyDictionary()
