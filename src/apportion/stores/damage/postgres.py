"""Damaged rows of tasks in PostgreSQL, put aside. The types of the columns hold, so only their values can be wrong."""

# ruff: noqa: S608 - every statement is ours

from collections.abc import Awaitable, Callable
from typing import Any

from apportion.stores.damage.rows import COLUMNS, COUNTS, MOST_NUMBER, salvaged, tell

_IS_LIST = "deaths_of ~ '^([0-9]{{1,19}}(,[0-9]{{1,19}})*)?$' AND length(deaths_of) < 4000"
_COUNTS = " AND ".join(f"{each} BETWEEN 0 AND {MOST_NUMBER}" for each in COUNTS)
_SOUND = f"{_IS_LIST} AND {_COUNTS} AND coalesce(due, 0) BETWEEN 0 AND {MOST_NUMBER}"
_ATTEMPT = f"attempt BETWEEN 0 AND {MOST_NUMBER}"
_KEEP = (
    f"WITH damaged AS (DELETE FROM {{schema}}.task WHERE NOT ({_SOUND}) RETURNING *),"
    " time AS (SELECT %s::bigint AS now)"
    f" INSERT INTO {{schema}}.outcome ({COLUMNS}) SELECT {salvaged('time.now', _ATTEMPT)} FROM damaged, time"
    " ON CONFLICT (id) DO NOTHING RETURNING id"
)
_STRIKE = (
    f"UPDATE {{schema}}.outcome SET deaths_of = '', deaths = 0 WHERE deaths <> 0 AND NOT ({_IS_LIST}) RETURNING id"
)
_PAUSE = (
    "UPDATE {schema}.control SET paused = 1, open_claims = NULL, rate = NULL, per_ms = 60000, tokens = 0, tokens_at = 0"
    " WHERE per_ms <= 0 OR tokens = 'NaN' RETURNING queue"
)


async def put_aside(ask: Callable[..., Awaitable[list[Any]]], now: int) -> bool:
    """Put all damaged rows aside in a transaction, by its `ask`; return whether there was one."""
    kept, struck = await ask(_KEEP, [now]), await ask(_STRIKE)
    tasks = [str(task) for (task,) in (*kept, *struck)]
    return tell(tasks, [str(queue) for (queue,) in await ask(_PAUSE)])
