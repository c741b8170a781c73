"""The lookout of PostgreSQL looks for changes: at once after a hint, and from time to time without hints.

With `?watch=poll` it always looks twenty times per time to live of the shortest lease.
"""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from apportion.errors import InvalidInput, StoreClosed, StoreDenied, StoreUnavailable
from apportion.runtime.clock import Clock
from apportion.stores.lookout import Lookout, pause_seconds
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.driver import Row
from apportion.stores.postgres.ear import Ear
from apportion.stores.postgres.leases import Leases
from apportion.stores.postgres.link import PostgresLink
from apportion.stores.reaper import Counter

POLLS_PER_TTL = 20
_HINTED_PAUSE_SECONDS = 2.0
_AWAY_SECONDS = 0.25
_MOST_KEYS = 1_000


@dataclass(frozen=True, slots=True)
class SeenState:
    """An incarnation of the store, and its revision at that time."""

    incarnation: int
    revision: int


class PostgresLookout(Lookout):
    """Looks on behalf of all handles. It reads over the link `watching` and ends leases over the link `committing`."""

    def __init__(
        self,
        watching: PostgresLink,
        committing: PostgresLink,
        ear: Ear,
        leases: Leases,
        clock: Clock,
        *,
        is_polled: bool,
    ) -> None:
        super().__init__(clock, leases.ids)
        self._watching, self._committing = watching, committing
        self._ear = ear
        ear.tells(self._told, self.tasks_changed)
        self._tasks_changed = asyncio.Event()
        self._leases = leases
        self._is_polled = is_polled
        self._state = SeenState(0, 0)
        self._was_told = False

    def _told(self) -> None:
        self._was_told = True
        self._nudge()

    def tasks_changed(self) -> None:
        """Wake the workers of this process that wait for tasks."""
        self._tasks_changed.set()

    async def change_of_tasks(self) -> None:
        """Wait for the next sign of new tasks. Without a watch, only the signs of this process are sure to come."""
        self._tasks_changed.clear()
        await self._tasks_changed.wait()

    def wrote(self, keys: Iterable[bytes] | None = None, *, at: SeenState | None = None) -> None:
        """Wake the watches of keys that this process has written or may have written; look often for a while.

        `at` is the state after a write. If it directly follows the last seen state, it counts as seen. The next look
        then finds nothing new.
        """
        if at is not None and at == SeenState(self._state.incarnation, self._state.revision + 1):
            self._state = at
        self._noticed()
        self._watchers.wake(keys)

    async def _look(self) -> None:
        """Look once for the changes of others, and for leases that have ended."""
        is_going_on = False
        try:
            now = self._clock.elapsed()
            seen = await self._reap(now) if now >= self._reap_at - self._early_seconds else None
            if seen is None or seen != self._state:
                rows = await self._watching.ask(sql.TOUCHED, {"after": self._state.revision, "most": _MOST_KEYS})
                was_told, self._was_told = self._was_told, False
                self._take(rows, was_told=was_told)
            is_going_on = True
        except (StoreUnavailable, StoreDenied, StoreClosed, InvalidInput):  # the next read of a watch reports it
            self._reaper.forget()  # while the store is away, no holder can renew
            self._reap_at = self._clock.elapsed() + _AWAY_SECONDS
            await asyncio.sleep(_AWAY_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            is_going_on = True
        finally:
            if not is_going_on:
                self._watchers.wake()  # the watches meet the error that ended the task

    def _take(self, rows: list[Row], *, was_told: bool) -> None:
        before, now = self._state, state_of(rows[0])
        self._state = now
        if now == before:
            return
        is_whole = now.incarnation == before.incarnation and cast("int", rows[0][2]) <= before.revision
        if now.incarnation != before.incarnation:
            self._reaper.forget()
        if not was_told:
            self._ear.distrust()
        keys = [cast("bytes", row[3]) for row in rows if row[3] is not None]
        is_whole = is_whole and now.revision > before.revision and len(rows) < _MOST_KEYS
        self.wrote(keys if is_whole else None)

    async def _reap(self, started: float) -> SeenState:
        """Read counters of leases, end each lease without a renewal in its time to live; return the state read."""
        most, known = self._reaper.most(started), frozenset(self._leases.ids)
        if most is None:
            rows = await self._watching.ask(sql.COUNTERS)
        else:
            rows = await self._watching.ask(sql.LOWEST_COUNTERS, {"most": most})
        finished, met = self._clock.elapsed(), state_of(rows[0])
        counters = counters_of(rows)
        ended = self._reaper.ended(counters, started=started, finished=finished, most=most)
        self._reap_at = finished + self._reaper.pause_seconds() * random.uniform(0.9, 1.1)  # noqa: S311 - no secret
        if most is None:
            self._leases.forget(known - {each.lease for each in counters})
        for each in ended:
            ending = [met.incarnation, met.revision, each.lease, each.renewals, self._leases.lock_milliseconds]
            await self._committing.ask(sql.END, ending)
        if ended:
            self.tasks_changed()  # the tasks of its session can be taken over
        return met

    @property
    def _early_seconds(self) -> float:
        """The time by which a read of leases may come before it is due.

        With looks at a fixed pace, leases are read at the look nearest to the due time. That look may come before it.
        """
        return self._leases.shortest_seconds / POLLS_PER_TTL / 2 if self._is_polled else 0.0

    def _pause_seconds(self, quiet_seconds: float) -> float:
        if self._is_polled:
            return 2 * self._early_seconds
        pause = _HINTED_PAUSE_SECONDS if self._ear.is_trusted else pause_seconds(quiet_seconds)
        return max(0.0, min(pause, self._reap_at - self._clock.elapsed()))


def state_of(row: Row) -> SeenState:
    """Return the state at the beginning of a row."""
    return SeenState(cast("int", row[0]), cast("int", row[1]))


def counters_of(rows: Iterable[Row]) -> tuple[Counter, ...]:
    """Return the counters in rows of `COUNTERS`. If there are no leases, these are one row without a lease."""
    leases = cast("Iterable[tuple[int, int, int | None, int, float]]", rows)
    return tuple(
        Counter(lease=lease, renewals=count, ttl_seconds=ttl) for _, _, lease, count, ttl in leases if lease is not None
    )
