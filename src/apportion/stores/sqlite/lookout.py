"""The lookout of SQLite: it polls the version of the file, and reads the file only after others have changed it.

Promises: a watch of quiet keys still advances before the history at its position is forgotten.
"""

import asyncio
from collections.abc import Iterable

from apportion.errors import StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.stores.lookout import Lookout, pause_seconds
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite.connection import Connection
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.ledger import LedgerState

_MOST_KEYS = 1_000
_NEVER = (0, 0)


class SqliteLookout(Lookout):
    """Looks at one file on behalf of all handles of the process; `leases` are the leases of the process."""

    def __init__(self, file: SqliteFile, clock: Clock) -> None:
        self.leases: set[int] = set()
        super().__init__(clock, self.leases)
        self._file = file
        self._polled = _NEVER
        self._state = LedgerState(0, 0, 0)  # all changes up to this state have woken their watches
        self._all_read_at = 0
        self._highest = 0  # the highest revision that this process knows
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Return after the next change of any kind to the file. Without a watch, only this process's changes count."""
        self._changed.clear()
        await self._changed.wait()

    def wrote(self, keys: Iterable[bytes] | None = None, *, at: int = 0) -> None:
        """Wake the watches of keys that this process has written (None: all watches), and look often for a while."""
        if at == self._state.revision + 1:
            self._state = self._state._replace(revision=at)
        self._highest = max(self._highest, at)
        self._polled = _NEVER  # the version of the file does not show a write of this process
        self._changed.set()
        self._noticed()
        self._watchers.wake(keys)

    async def _look(self) -> None:
        """Look once for the changes of others, and for leases that have ended."""
        is_going_on = False
        try:
            polled = await self._file.data_version()
            if polled != self._polled or self._file.moved:
                self._polled = polled
                self._changed.set()
                self._take(*await self._file.read(self._changes))
            if self._clock.elapsed() >= self._reap_at:
                await self._reap()
            is_going_on = True
        except StoreWentBack:
            pass  # the woken watches get the error when they read
        except (StoreUnavailable, StoreDenied):
            self._reaper.forget()  # while the store is unavailable, no holder can renew
            self._reap_at = self._clock.elapsed() + self._reaper.pause_seconds()
            is_going_on = True
        finally:
            if not is_going_on:
                self._watchers.wake()  # the watches then read the change, or raise the error that ended the task

    def _changes(self, connection: Connection) -> tuple[LedgerState, list[bytes]]:
        now = ledger.state(connection)
        is_same = now.incarnation == self._state.incarnation and now.revision > self._state.revision
        return now, ledger.touched(connection, self._state.revision, _MOST_KEYS) if is_same else []

    def _take(self, now: LedgerState, keys: list[bytes]) -> None:
        """Wake the watches of the keys that a look has found. A renewal changes the file, but wakes no watch."""
        before, self._state = self._state, now
        went_back = now.incarnation != before.incarnation or now.revision < self._highest
        self._highest = now.revision
        # A watch of quiet keys reads from time to time, before the history after its position is forgotten.
        is_far = now.revision - self._all_read_at >= ledger.KEPT_REVISIONS // 4
        if went_back:
            self._reaper.forget()
        if went_back or is_far or now.compacted != before.compacted or len(keys) == _MOST_KEYS:
            self._all_read_at = now.revision
            self._noticed()
            self._watchers.wake()
        elif keys:
            self._noticed()
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
        return max(0.0, min(pause_seconds(quiet_seconds), self._reap_at - self._clock.elapsed()))
