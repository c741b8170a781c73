"""Task damage in an SQLite file, which keeps any value in any column: puts damaged rows aside.

A text that is no UTF-8 cannot be read at all: its wrong bytes are replaced first.
"""

# ruff: noqa: S608 - every statement is ours

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

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

_IS_LIST = "typeof(deaths_of) = 'text' AND ',' || deaths_of NOT GLOB '*[^0-9,]*' AND deaths_of NOT GLOB '*,,*'"
_IS_LIST += " AND deaths_of NOT GLOB ',*' AND deaths_of NOT GLOB '*,' AND length(deaths_of) < 4000"
_TEXTS = ("id", "queue", "name", "codec", "note", "reason", "trace")
_KEY = f"(typeof(key) = 'text' AND length(CAST(key AS BLOB)) BETWEEN 1 AND {MOST_KEY_BYTES} AND {IS_KEYED})"
_SOUND = " AND ".join(
    [f"({_IS_LIST})", "typeof(progress) IN ('integer', 'real') AND progress BETWEEN 0 AND 1"]
    + [f"typeof({each}) = 'integer' AND {each} BETWEEN 0 AND {MOST_NUMBER}" for each in COUNTS]
    + [f"typeof({each}) = 'integer' AND {each} BETWEEN 0 AND {MOST_TIME}" for each in TIMES]
    + [f"typeof({each}) IN ('integer', 'null')" for each in OPTIONAL_TIMES]
    + [f"ifnull({each}, 0) BETWEEN 0 AND {MOST_TIME}" for each in OPTIONAL_TIMES]
    + [f"typeof({each}) = 'text'" for each in _TEXTS]
    + [f"typeof({each}) IN ('text', 'null')" for each in ("uniq", "schedule")]
    + ["typeof(arguments) = 'blob'", DEAD_MODES, f"CASE WHEN key IS NULL THEN lane < {KEYED_LANES} ELSE {_KEY} END"]
)
_SOUND_TASK = f"{_SOUND} AND {IS_OPEN} AND typeof(session) IN ('integer', 'null') AND ifnull(session, 0) >= 0"
_SOUND_END = (
    f"{_SOUND} AND state IN ({', '.join(map(repr, ENDS))}) AND typeof(at) = 'integer' AND at BETWEEN 0 AND {MOST_TIME}"
    " AND typeof(result) IN ('blob', 'null')"
)
_SOUND_LIMITS = " AND ".join(
    [
        f"typeof(ifnull({each}, 0)) = 'integer' AND ifnull({each}, 0) BETWEEN 0 AND {MOST_NUMBER}"
        for each in ("open_claims", "rate", "paused", "tokens_at")
    ]
    + [f"typeof(per_ms) = 'integer' AND per_ms BETWEEN 1 AND {MOST_TIME}"]
    + [f"typeof(tokens) IN ('real', 'integer') AND abs(tokens) <= {MOST_NUMBER}"]
)
_SOUND_LANE = " AND ".join(
    [f"typeof({each}) = 'integer' AND {each} >= 0" for each in ("incarnation", "epoch", "session")]
    + ["typeof(lane) = 'integer'", "typeof(queue) = 'text'", "typeof(holder) = 'text'"]
)
_SOUND_CLAIM = (
    f"(typeof(task) = 'text' AND typeof(attempt) = 'integer' AND attempt BETWEEN 0 AND {MOST_NUMBER}"
    " AND typeof(session) = 'integer' AND session >= 0)"
)
_SOUND_AT = f"(typeof(at) = 'integer' AND at BETWEEN 0 AND {MOST_TIME})"
_SOUND_VALUE = f"(value IS NULL OR typeof(value) = 'blob' AND length(value) <= {MOST_ONCE_BYTES})"
_SOUND_ENTRY = f"{_SOUND_CLAIM} AND {_SOUND_AT} AND {_SOUND_VALUE}"
_UNSOUND_WORKER = (
    "typeof(name) <> 'text' OR typeof(host) <> 'text' OR typeof(queues) <> 'text' OR typeof(pid) <> 'integer'"
    " OR typeof(concurrency) <> 'integer'"
)
_ATTEMPT = f"typeof(attempt) = 'integer' AND attempt BETWEEN 0 AND {MOST_NUMBER}"
_TEXT = "CASE WHEN typeof({0}) = 'text' THEN {0} ELSE hex({0}) END"
_PARTITION = f"CASE WHEN typeof(lane) = 'integer' THEN lane - {KEYED_LANES} ELSE hex(lane) END"
_DATA = "CAST({0} AS BLOB)"
_SALVAGED = salvaged("?1", _ATTEMPT, _KEY, text=_TEXT, data=_DATA)
_COLUMNS, _VALUES = ", ".join(_SALVAGED), ", ".join(_SALVAGED.values())
_KEEP = f"REPLACE INTO outcome ({_COLUMNS}) SELECT {_VALUES} FROM task WHERE NOT ({_SOUND_TASK}) RETURNING id"
_REMOVE = f"DELETE FROM task WHERE NOT ({_SOUND_TASK})"
_RESULT = "CASE WHEN typeof(result) IN ('blob', 'null') THEN result END"
_MEND = (
    f"UPDATE outcome SET {mended('?1', _ATTEMPT, _KEY, text=_TEXT, data=_DATA)}, result = {_RESULT}"
    f" WHERE NOT ({_SOUND_END}) RETURNING id"
)
_PAUSE = (
    "UPDATE control SET paused = 1, open_claims = NULL, rate = NULL, per_ms = 60000, tokens = 0, tokens_at = 0"
    f" WHERE NOT ({_SOUND_LIMITS}) RETURNING queue"
)
_SOUND_COUNT = f"(typeof(partitions) IN ('integer', 'null') AND {IS_COUNTED})"
_FORGET_COUNT = f"UPDATE control SET partitions = NULL WHERE NOT {_SOUND_COUNT} RETURNING queue"
_FORGET_LANE = f"DELETE FROM lane WHERE NOT ({_SOUND_LANE}) RETURNING {_PARTITION}"
_IS_BEHIND = "EXISTS (SELECT 1 FROM task AS t WHERE t.queue = task.queue AND t.key = task.key AND t.pos < task.pos)"
_MARK = f"UPDATE task SET behind = {_IS_BEHIND} WHERE key IS NOT NULL AND behind IS NOT {_IS_BEHIND} RETURNING id"
_ENTRY = f"UPDATE once SET {unsure('?1', _SOUND_CLAIM, _SOUND_AT, _SOUND_VALUE)} WHERE NOT ({_SOUND_ENTRY})"
_NAME = (
    f"SELECT 'task ' || {_TEXT.format('id')} FROM task WHERE NOT ({_SOUND_TASK})"
    f" UNION ALL SELECT 'ended task ' || {_TEXT.format('id')} FROM outcome WHERE NOT ({_SOUND_END})"
    f" UNION ALL SELECT 'limits of ' || {_TEXT.format('queue')} FROM control WHERE NOT ({_SOUND_LIMITS})"
    f" UNION ALL SELECT 'partitions of ' || {_TEXT.format('queue')} FROM control WHERE NOT {_SOUND_COUNT}"
    f" UNION ALL SELECT 'worker ' || session FROM worker WHERE {_UNSOUND_WORKER}"
    f" UNION ALL SELECT 'lane ' || {_PARTITION} || ' of ' || {_TEXT.format('queue')} FROM lane"
    f" WHERE NOT ({_SOUND_LANE} AND epoch <= {MOST_EPOCH})"
    f" UNION ALL SELECT 'effect ' || {_TEXT.format('key')} FROM once WHERE NOT ({_SOUND_ENTRY})"
)
_WITH_TEXTS = {
    "task": (*_TEXTS, "deaths_of", "uniq", "schedule", "key", "on_dead"),
    "outcome": (*_TEXTS, "deaths_of", "uniq", "schedule", "key", "on_dead", "state"),
    "control": ("queue",),
    "worker": ("name", "host", "queues"),
    "lane": ("queue", "holder"),
    "once": ("task",),
}
_KEYS = {"task": "pos", "outcome": "id", "control": "queue", "worker": "session", "lane": "lane", "once": "key"}


class File(Protocol):
    """A connection to an SQLite file. `text_factory` makes a value of the bytes of a text."""

    text_factory: Any

    def execute(self, statement: str, values: Any = (), /) -> Any:  # noqa: ANN401 - a foreign library's
        """Run one statement."""


@contextmanager
def any_text(file: File) -> Iterator[None]:
    """Within the block, a text that is no UTF-8 has surrogates in place of its wrong bytes."""
    usual = file.text_factory
    file.text_factory = _decoded
    try:
        yield
    finally:
        file.text_factory = usual


def put_aside(file: File, now: int) -> bool:
    """Put all damaged rows aside in a transaction; return whether any row was damaged."""
    mends = [f"{table} {key}" for table, key in _mend_texts(file)]
    tasks = [task for (task,) in file.execute(_KEEP, (now,)).fetchall()]
    file.execute(_REMOVE)
    mends += [task for (task,) in file.execute(_MEND, (now,)).fetchall()]
    mends += [
        f"effect {key}" for (key,) in file.execute(f"{_ENTRY} RETURNING {_TEXT.format('key')}", (now,)).fetchall()
    ]
    mends += [f"place of task {task}" for (task,) in file.execute(_MARK).fetchall()]
    mends += [f"lane {lane}" for (lane,) in file.execute(_FORGET_LANE).fetchall()]
    mends += [f"partitions of {queue}" for (queue,) in file.execute(_FORGET_COUNT).fetchall()]
    return tell(tasks, [queue for (queue,) in file.execute(_PAUSE).fetchall()], mends)


def names(file: File) -> list[str]:
    """Return the names of the damaged rows, for an operator. O(all tasks)."""
    with any_text(file):
        found = [f"{name}".encode(errors="backslashreplace").decode() for (name,) in file.execute(_NAME).fetchall()]
    return found + [f"{table} {key}" for table, key, _ in _wrong_texts(file)]


def _mend_texts(file: File) -> Iterator[tuple[str, str]]:
    for table, key, texts in list(_wrong_texts(file)):
        for column, text in texts.items():
            data = text.encode(errors="surrogateescape")
            file.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = CAST(? AS TEXT)", (_clean(text), data))
        yield table, key


def _wrong_texts(file: File) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the tables and keys of rows with texts that are no UTF-8, and these texts by column."""
    with any_text(file):
        for table, columns in _WITH_TEXTS.items():
            for key, *texts in file.execute(f"SELECT {_KEYS[table]}, {', '.join(columns)} FROM {table}"):
                wrong = {column: text for column, text in zip(columns, texts, strict=True) if _is_wrong(text)}
                if wrong:
                    yield table, _clean(f"{key}"), wrong


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _is_wrong(text: object) -> bool:
    return isinstance(text, str) and not text.isascii() and text != _clean(text)


def _clean(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="replace")
