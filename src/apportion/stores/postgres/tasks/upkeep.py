"""Upkeep: the work that a handle of tasks does every few seconds, beside its turns.

- It deletes outcomes after their time: 10 000 at once, so that no transaction is long.
- It adds a row of a worker for an ended session that has claims but no row. This happens only after a change by hand. A
  turn finds the claims of ended sessions by these rows, and takes them over. One seek per session with claims.
- It takes the mark `behind` off tasks that are first of their key. A completion in REPEATABLE READ may leave such a
  mark, because its snapshot lacks a task that was added later. One seek per key, 5 000 keys at once, in rounds.
"""

from typing import Any

from apportion.runtime.clock import Clock
from apportion.stores.postgres.door import Transaction

UPKEEP_SECONDS = 5.0
MOST_FORGOTTEN = 10_000
MOST_KEYS = 5_000
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
_NEXT_KEY = (
    "SELECT t.queue, t.key, t.id, t.behind FROM {schema}.task AS t"
    " WHERE t.key IS NOT NULL AND (t.queue, t.key) > (%s, %s) ORDER BY t.queue, t.key, t.pos LIMIT 1"
)
# Reads the next keys after one key. The row has the last key read, the number of keys, and the wrongly marked tasks.
KEYS = (
    f"WITH RECURSIVE first AS (({_NEXT_KEY}) UNION ALL SELECT next.* FROM first, LATERAL"  # noqa: S608 - ours
    f" ({_NEXT_KEY.replace('(%s, %s)', '(first.queue, first.key)')}) AS next),"
    " looked AS MATERIALIZED (SELECT * FROM first LIMIT %s)"
    " SELECT queue, key, (SELECT count(*) FROM looked), ARRAY(SELECT id FROM looked WHERE behind)"
    " FROM looked ORDER BY queue DESC, key DESC LIMIT 1"
)
FREE = (
    "UPDATE {schema}.task SET behind = false WHERE id = ANY (ARRAY(SELECT id FROM {schema}.task"
    " WHERE id = ANY (%s::text[]) AND behind ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))"
)


class Upkeep:
    """The upkeep that one handle does."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._due_at = clock, float("-inf")
        self._after = ("", "")

    def is_due(self) -> bool:
        """Whether it is time for the upkeep."""
        return self._clock.elapsed() >= self._due_at

    async def done(self, transaction: Transaction) -> None:
        """Do the upkeep. It is due again at once while more outcomes wait for deletion."""
        await transaction.ask(ADOPT)
        await self._free(transaction)
        forgotten = await transaction.ask(FORGET, [MOST_FORGOTTEN])
        rest_seconds = UPKEEP_SECONDS if len(forgotten) < MOST_FORGOTTEN else 0.0
        self._due_at = self._clock.elapsed() + rest_seconds

    async def _free(self, transaction: Transaction) -> None:
        """Take wrong marks off the first tasks of the next keys. After the last key, begin anew."""
        found: list[Any] = await transaction.ask(KEYS, [*self._after, MOST_KEYS])
        self._after = ("", "")
        for queue, key, count, stuck in found:
            if count == MOST_KEYS:
                self._after = (queue, key)
            if stuck:
                await transaction.ask(FREE, [stuck])
