"""Damaged rows of tasks in an SQLite file, which keeps any value in any column, put aside."""

# ruff: noqa: S608 - every statement is ours

from collections.abc import Callable
from typing import Any

from apportion.stores.damage.rows import COLUMNS, COUNTS, MOST_NUMBER, salvaged, tell

_IS_LIST = "typeof(deaths_of) = 'text' AND ',' || deaths_of NOT GLOB '*[^0-9,]*' AND deaths_of NOT GLOB '*,,*'"
_IS_LIST += " AND deaths_of NOT GLOB ',*' AND deaths_of NOT GLOB '*,' AND length(deaths_of) < 4000"
_SOUND = " AND ".join(
    [f"({_IS_LIST})"]
    + [f"typeof({each}) = 'integer' AND {each} BETWEEN 0 AND {MOST_NUMBER}" for each in COUNTS]
    + [f"typeof({each}) IN ('integer', 'null')" for each in ("due", "expires", "most_deaths", "slot", "session")]
    + [f"typeof({each}) = 'text'" for each in ("id", "name", "codec", "note", "reason", "trace")]
    + ["typeof(lane) = 'integer'", "typeof(arguments) = 'blob'", "typeof(progress) <> 'text'"]
)
_ATTEMPT = f"typeof(attempt) = 'integer' AND attempt BETWEEN 0 AND {MOST_NUMBER}"
_TEXT = "CASE WHEN typeof({0}) = 'text' THEN {0} ELSE hex({0}) END"
_KEEP = (
    f"REPLACE INTO outcome ({COLUMNS})"
    f" SELECT {salvaged('?1', _ATTEMPT, text=_TEXT, data='CAST({} AS BLOB)')} FROM task WHERE NOT ({_SOUND})"
    " RETURNING id"
)
_REMOVE = f"DELETE FROM task WHERE NOT ({_SOUND})"
_STRIKE = f"UPDATE outcome SET deaths_of = '', deaths = 0 WHERE deaths <> 0 AND NOT ({_IS_LIST}) RETURNING id"
_PAUSE = (
    "UPDATE control SET paused = 1, open_claims = NULL, rate = NULL, per_ms = 60000, tokens = 0, tokens_at = 0"
    " WHERE typeof(open_claims) NOT IN ('integer', 'null') OR typeof(rate) NOT IN ('integer', 'null')"
    " OR typeof(per_ms) <> 'integer' OR per_ms <= 0 OR typeof(tokens) NOT IN ('real', 'integer')"
    " OR typeof(tokens_at) <> 'integer' RETURNING queue"
)


def put_aside(execute: Callable[..., Any], now: int) -> bool:
    """Put all damaged rows aside in a transaction, by its `execute`; return whether there was one."""
    tasks = [task for (task,) in execute(_KEEP, (now,)).fetchall()]
    execute(_REMOVE)
    tasks += [task for (task,) in execute(_STRIKE).fetchall()]
    return tell(tasks, [queue for (queue,) in execute(_PAUSE).fetchall()])
