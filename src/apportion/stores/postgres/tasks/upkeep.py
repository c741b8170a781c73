"""Upkeep: the work that a handle of tasks does once in some seconds, beside its turns.

- An outcome that was kept long enough is forgotten: 10 000 at a time, so that no transaction is long.
- An open claim under a session without a lease that no row of a worker names, after a change by hand, gets such a row.
  A turn finds the claims of ended sessions by these rows, so it takes the claim over. One seek per session with claims.
"""

from apportion.runtime.clock import Clock
from apportion.stores.postgres.door import Transaction

UPKEEP_SECONDS = 5.0
MOST_FORGOTTEN = 10_000
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
FORGET = (
    "DELETE FROM {schema}.outcome WHERE id = ANY (ARRAY(SELECT id FROM {schema}.outcome"
    " WHERE keep_until <= (SELECT {schema}.now_ms()) ORDER BY keep_until LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id"
)


class Upkeep:
    """The upkeep by one handle."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._due_at = clock, float("-inf")

    def is_due(self) -> bool:
        """Whether it is time for the upkeep."""
        return self._clock.elapsed() >= self._due_at

    async def done(self, transaction: Transaction) -> None:
        """Do the upkeep; it is due again at once while there is more to forget."""
        await transaction.ask(ADOPT)
        forgotten = await transaction.ask(FORGET, [MOST_FORGOTTEN])
        rest_seconds = UPKEEP_SECONDS if len(forgotten) < MOST_FORGOTTEN else 0.0
        self._due_at = self._clock.elapsed() + rest_seconds
