"""The lookout: one task per process and file that looks for changes and for leases that have ended.

It serves the watches of all handles: a look names the changed keys, and the watches of those keys read on.
Promises: no task runs without a watch. A watch of quiet keys still advances before the history at its position is
forgotten.
Refuses: to judge whether the store went back; each handle does that itself.
"""

from collections.abc import Iterable

from apportion.errors import StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.stores.poll import Polling
from apportion.stores.poll import pause_seconds as poll_pause_seconds
from apportion.stores.reaper import Reaper
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.ledger import LedgerState
from apportion.stores.watchers import Watcher, Watchers

_MOST_KEYS = 1_000
_NEVER = (0, 0)


class SqliteLookout:
    """Looks at one file on behalf of all handles of the process; `leases` are the leases of the process."""

    def __init__(self, file: SqliteFile, clock: Clock) -> None:
        self.leases: set[int] = set()
        self._file, self._clock = file, clock
        self._watchers = Watchers()
        self._polling = Polling(self._look, clock, pause=self._pause_seconds)
        self._reaper = Reaper(own=self.leases)
        self._reap_at = clock.elapsed()
        self._polled = _NEVER
        self._state = LedgerState(0, 0, 0)  # watches were woken up to this state
        self._all_read_at = 0
        self._highest = 0  # the highest revision that this process knows

    def join(self, start: bytes, end: bytes) -> Watcher:
        """Return a watch of the keys in [start, end); the first watch starts the task."""
        if self._watchers.is_empty:
            self._reaper.forget()  # nothing is known of the time without a watch
        watcher = self._watchers.join(start, end)
        self._polling.join()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Forget a watch; the last one stops the task."""
        self._watchers.leave(watcher)
        self._polling.leave()

    def require_running(self) -> None:
        """Raise the error that ended the task, if there is one."""
        self._polling.next_change()

    def wrote(self, keys: Iterable[bytes] | None = None, *, at: int = 0) -> None:
        """Wake the watches of keys that this process has written, all without keys; look often for a while."""
        if at == self._state.revision + 1:
            self._state = self._state._replace(revision=at)
        self._highest = max(self._highest, at)
        self._polled = _NEVER  # the version of the file does not show a write of this process
        self._polling.noticed()
        self._watchers.wake(keys)

    async def _look(self) -> None:
        """Look once for the changes of others, and for leases that have ended."""
        is_going_on = False
        try:
            polled = await self._file.data_version()
            if polled != self._polled or self._file.moved:
                self._polled = polled
                self._take(*await self._file.read(self._changes))
            if self._clock.elapsed() >= self._reap_at:
                await self._reap()
            is_going_on = True
        except StoreWentBack:
            pass  # the watches are woken, and get the error when they read
        except (StoreUnavailable, StoreDenied):
            self._reaper.forget()  # while the store is away, no holder can renew
            self._reap_at = self._clock.elapsed() + self._reaper.pause_seconds()
            is_going_on = True
        finally:
            if not is_going_on:
                self._watchers.wake()  # they learn of the change, or of the error that ended the task

    def _changes(self, connection: Connection) -> tuple[LedgerState, list[bytes]]:
        now = ledger.state(connection)
        is_same = now.incarnation == self._state.incarnation and now.revision > self._state.revision
        return now, ledger.touched(connection, self._state.revision, _MOST_KEYS) if is_same else []

    def _take(self, now: LedgerState, keys: list[bytes]) -> None:
        """Wake the watches of the keys that a look has found. Renewals change the file, and wake none."""
        before, self._state = self._state, now
        went_back = now.incarnation != before.incarnation or now.revision < self._highest
        self._highest = now.revision
        # A watch of quiet keys reads on from time to time, before the history after its position is forgotten.
        is_far = now.revision - self._all_read_at >= ledger.KEPT_REVISIONS // 4
        if went_back:
            self._reaper.forget()
        if went_back or is_far or now.compacted != before.compacted or len(keys) == _MOST_KEYS:
            self._all_read_at = now.revision
            self._polling.noticed()
            self._watchers.wake()
        elif keys:
            self._polling.noticed()
            self._watchers.wake(keys)

    async def _reap(self) -> None:
        started = self._clock.elapsed()
        most = self._reaper.most(started)
        counters = await self._file.read(lambda connection: ledger.counters(connection, most))
        finished = self._clock.elapsed()
        ended = self._reaper.ended(counters, started=started, finished=finished, most=most)
        self._reap_at = finished + self._reaper.pause_seconds()
        if most is None:
            self.leases &= {each.lease for each in counters}
        if ended:
            await self._file.write(lambda connection: ledger.reap(connection, ended))
            self.wrote()

    def _pause_seconds(self, quiet_seconds: float) -> float:
        return max(0.0, min(poll_pause_seconds(quiet_seconds), self._reap_at - self._clock.elapsed()))
