"""Task damage in PostgreSQL: puts damaged rows aside.

PostgreSQL enforces the types of the columns, so only their values can be wrong.
"""

# ruff: noqa: S608 - every statement is ours

from collections.abc import Awaitable, Callable
from typing import Any

from apportion.stores.damage.rows import (
    COUNTS,
    DEAD_MODES,
    ENDS,
    IS_COUNTED,
    IS_KEYED,
    IS_OPEN,
    OPTIONAL_TIMES,
    TIMES,
    mended,
    salvaged,
    tell,
    unsure,
)
from apportion.stores.lanes.values import KEYED_LANES, MOST_EPOCH, MOST_KEY_BYTES
from apportion.stores.task_once import MOST_ONCE_BYTES
from apportion.stores.task_values import MOST_NUMBER, MOST_TIME

_IS_LIST = "deaths_of ~ '^([0-9]{{1,19}}(,[0-9]{{1,19}})*)?$' AND length(deaths_of) < 4000"
_KEY = f"(key IS NOT NULL AND octet_length(key) BETWEEN 1 AND {MOST_KEY_BYTES} AND {IS_KEYED})"
_SOUND = " AND ".join(
    [_IS_LIST, "progress BETWEEN 0 AND 1", DEAD_MODES]
    + [f"CASE WHEN key IS NULL THEN lane < {KEYED_LANES} ELSE {_KEY} END"]
    + [f"{each} BETWEEN 0 AND {MOST_NUMBER}" for each in COUNTS]
    + [f"{each} BETWEEN 0 AND {MOST_TIME}" for each in TIMES]
    + [f"coalesce({each}, 0) BETWEEN 0 AND {MOST_TIME}" for each in OPTIONAL_TIMES]
)
_SOUND_TASK = f"{_SOUND} AND {IS_OPEN} AND coalesce(session, 0) >= 0"
_SOUND_END = f"{_SOUND} AND state IN ({', '.join(map(repr, ENDS))}) AND at BETWEEN 0 AND {MOST_TIME}"
_SOUND_LIMITS = " AND ".join(
    [f"coalesce({each}, 0) BETWEEN 0 AND {MOST_NUMBER}" for each in ("open_claims", "rate", "paused", "tokens_at")]
    + [f"per_ms BETWEEN 1 AND {MOST_TIME} AND abs(tokens) <= {MOST_NUMBER}"]
)
_ATTEMPT = f"attempt BETWEEN 0 AND {MOST_NUMBER}"
_SALVAGED = salvaged("time.now", _ATTEMPT, _KEY)
_COLUMNS, _VALUES = ", ".join(_SALVAGED), ", ".join(_SALVAGED.values())
_KEEP = (
    f"WITH damaged AS (DELETE FROM {{schema}}.task WHERE NOT ({_SOUND_TASK}) RETURNING *),"
    " time AS (SELECT %s::bigint AS now)"
    f" INSERT INTO {{schema}}.outcome ({_COLUMNS}) SELECT {_VALUES} FROM damaged, time"
    " ON CONFLICT (id) DO NOTHING RETURNING id"
)
_MEND = f"UPDATE {{schema}}.outcome SET {mended('%s::bigint', _ATTEMPT, _KEY)} WHERE NOT ({_SOUND_END}) RETURNING id"
_PAUSE = (
    "UPDATE {schema}.control SET paused = 1, open_claims = NULL, rate = NULL, per_ms = 60000, tokens = 0, tokens_at = 0"
    f" WHERE NOT ({_SOUND_LIMITS}) RETURNING queue"
)
_FORGET_COUNT = f"UPDATE {{schema}}.control SET partitions = NULL WHERE NOT ({IS_COUNTED}) RETURNING queue"
_SOUND_CLAIM = f"(attempt BETWEEN 0 AND {MOST_NUMBER} AND session >= 0)"
_SOUND_AT = f"(at BETWEEN 0 AND {MOST_TIME})"
_SOUND_VALUE = f"(coalesce(octet_length(value), 0) <= {MOST_ONCE_BYTES})"
_SOUND_ENTRY = f"{_SOUND_CLAIM} AND {_SOUND_AT} AND {_SOUND_VALUE}"
_ENTRY = (
    f"UPDATE {{schema}}.once SET {unsure('%s::bigint', _SOUND_CLAIM, _SOUND_AT, _SOUND_VALUE)}"
    f" WHERE NOT ({_SOUND_ENTRY}) RETURNING key"
)
NAMES = (
    f"SELECT 'task ' || id FROM {{schema}}.task WHERE NOT ({_SOUND_TASK})"
    f" UNION ALL SELECT 'ended task ' || id FROM {{schema}}.outcome WHERE NOT ({_SOUND_END})"
    f" UNION ALL SELECT 'limits of ' || queue FROM {{schema}}.control WHERE NOT ({_SOUND_LIMITS})"
    f" UNION ALL SELECT 'partitions of ' || queue FROM {{schema}}.control WHERE NOT ({IS_COUNTED})"
    f" UNION ALL SELECT 'lane ' || (lane - {KEYED_LANES}) || ' of ' || queue FROM {{schema}}.lane"
    f" WHERE epoch NOT BETWEEN 0 AND {MOST_EPOCH}"
    f" UNION ALL SELECT 'effect ' || key FROM {{schema}}.once WHERE NOT ({_SOUND_ENTRY})"
)


async def put_aside(ask: Callable[..., Awaitable[list[Any]]], now: int) -> bool:
    """Put all damaged rows aside in the transaction of `ask`; return whether any row was damaged."""
    kept, mends = await ask(_KEEP, [now]), await ask(_MEND, [now, now, now])
    queues = [str(queue) for (queue,) in await ask(_PAUSE)]
    mended_rows = [str(task) for (task,) in mends] + [f"effect {key}" for (key,) in await ask(_ENTRY, [now])]
    mended_rows += [f"partitions of {queue}" for (queue,) in await ask(_FORGET_COUNT)]
    return tell([str(task) for (task,) in kept], queues, mended_rows)


async def names(ask: Callable[..., Awaitable[list[Any]]]) -> list[str]:
    """Return the names of the damaged rows, for an operator. O(all tasks)."""
    return [str(name) for (name,) in await ask(NAMES)]
