"""Orphans: open claims under a session without a lease that no row of a worker names, after a change by hand.

A turn finds the claims of ended sessions by the rows of workers. So an orphan gets such a row, and the next turn takes
its claim over. The look is one seek per session with open claims, once in some seconds.
"""

from apportion.runtime.clock import Clock
from apportion.stores.postgres.door import Transaction

_LOOK_SECONDS = 5.0
ADOPT = (
    "WITH RECURSIVE held AS ("
    "(SELECT session FROM {schema}.task WHERE session IS NOT NULL ORDER BY session LIMIT 1) UNION ALL"
    " SELECT (SELECT t.session FROM {schema}.task AS t WHERE t.session > held.session ORDER BY t.session LIMIT 1)"
    " FROM held WHERE held.session IS NOT NULL)"
    " INSERT INTO {schema}.worker (session, name, host, pid, queues, concurrency)"
    " SELECT session, 'unknown', '', 0, '', 0 FROM held WHERE session IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM {schema}.worker AS w WHERE w.session = held.session)"
    " AND NOT EXISTS (SELECT FROM {schema}.lease WHERE lease.id = held.session) ON CONFLICT DO NOTHING"
)


class Orphans:
    """The looks of one handle for orphans."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._look_at = clock, float("-inf")

    def is_due(self) -> bool:
        """Whether it is time for a look; the next one is some seconds later."""
        now = self._clock.elapsed()
        is_due = now >= self._look_at
        if is_due:
            self._look_at = now + _LOOK_SECONDS
        return is_due


async def adopt(transaction: Transaction) -> None:
    """Give each orphan the row of a worker."""
    await transaction.ask(ADOPT)
