"""The lanes of a worker in PostgreSQL: the tokens that it shows, and the keyed tasks that it may claim there.

Promises: a claim locks the row of its lane, so a newer owner shows its token before or after the claim. The claim
itself checks the order within a key, and checks that no task of the key is claimed.
"""

# ruff: noqa: S608 - every statement is ours

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from apportion.model.epoch import FencingToken
from apportion.stores.lanes.tokens import LaneRecord, is_cut, parted, some_of_each
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.driver import Parameter
from apportion.stores.postgres.key_functions import FIRST, IS_FIRST
from apportion.stores.postgres.prepared import written
from apportion.stores.task_records import OpenTask
from apportion.stores.task_rows import open_task
from apportion.stores.task_values import Worker

_CASTS = ("text[]", "bigint[]", "bigint[]", "bigint[]", "text[]")
_COLUMNS = "queue, lane, incarnation, epoch, holder, session"
SHOWN = f"SELECT {_COLUMNS} FROM {{schema}}.lane WHERE queue = ANY (%s::text[])"
SHOW = (
    f"INSERT INTO {{schema}}.lane AS l ({_COLUMNS}) SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[],"
    " %s::bigint[], %s::text[], %s::bigint[]) AS new (queue, lane, incarnation, epoch, holder, session)"
    " ORDER BY new.queue, new.lane"
    " ON CONFLICT (queue, lane) DO UPDATE SET incarnation = excluded.incarnation, epoch = excluded.epoch,"
    " holder = excluded.holder, session = excluded.session"
    " WHERE (l.incarnation, l.epoch) < (excluded.incarnation, excluded.epoch)"
    " OR ((l.incarnation, l.epoch, l.holder) = (excluded.incarnation, excluded.epoch, excluded.holder))"
    " RETURNING queue, lane"
)
HOLD = (
    f"SELECT {_COLUMNS} FROM {{schema}}.lane WHERE (queue, lane) IN (SELECT * FROM unnest(%s::text[], %s::bigint[]))"
    " ORDER BY queue, lane FOR SHARE"
)
_FIRST = f"{FIRST} AND t.deaths < %(deaths)s"


def first_statement(open_columns: str) -> str:
    """Return the statement that reads the first tasks of keys in lanes, oldest first, and locks them."""
    return (
        "WITH picked AS MATERIALIZED ("
        " SELECT first.place FROM unnest(%(queues)s::text[], %(lanes)s::bigint[]) AS of (queue, lane), LATERAL ("
        "  SELECT t.ctid AS place, t.pos FROM {schema}.task AS t WHERE t.queue = of.queue AND t.lane = of.lane"
        f"  AND {_FIRST} AND {IS_FIRST} ORDER BY t.pos LIMIT %(each)s"
        " ) AS first ORDER BY first.pos LIMIT %(most)s)"
        f" SELECT {open_columns} FROM picked JOIN {{schema}}.task AS t ON t.ctid = picked.place"
        f" WHERE {_FIRST} ORDER BY t.pos FOR UPDATE OF t SKIP LOCKED"
    )


async def shown(transaction: Transaction, worker: Worker) -> tuple[Worker, tuple[OwnedLane, ...]]:
    """Note the tokens that a worker shows; return the worker with the lanes that it may use, and its fenced lanes."""
    queues = list(dict.fromkeys(each.queue for each in worker.lanes))
    known = set(map(tuple, await transaction.ask(SHOWN, [queues])))
    new = [each for each in worker.lanes if _values(each, worker.session) not in known]
    if not new:
        return worker, ()
    noted = set(map(tuple, await transaction.ask(SHOW, _columns(new, worker.session))))
    fenced = tuple(each for each in new if (each.queue, each.lane) not in noted)
    return replace(worker, lanes=tuple(each for each in worker.lanes if each not in fenced)), fenced


async def held(transaction: Transaction, worker: Worker, tasks: Collection[OpenTask]) -> list[OpenTask]:
    """Return the locked tasks that a worker may claim, and lock the rows of their lanes."""
    places = sorted({(task.queue, task.new.lane) for task in tasks if task.new.key is not None})
    if not places:
        return list(tasks)
    rows = await transaction.ask(HOLD, [[queue for queue, _ in places], [lane for _, lane in places]])
    accepted, _ = _parted(worker.lanes, _records(rows))
    ours = {(each.queue, each.lane) for each in accepted}
    return [task for task in tasks if task.new.key is None or (task.queue, task.new.lane) in ours]


async def first_tasks(
    transaction: Transaction, statement: str, worker: Worker, queues: Collection[str], *, deaths: int, most: int
) -> list[OpenTask]:
    """Return the next keyed tasks of some queues that a worker may claim, locked, oldest first."""
    lanes = [each for each in worker.lanes if each.queue in queues]
    if not lanes:
        return []
    few = some_of_each(most, len(lanes))
    asked: dict[str, Parameter] = {
        "each": few,
        "queues": [each.queue for each in lanes],
        "lanes": [each.lane for each in lanes],
        "deaths": deaths,
        "most": most,
    }
    found = list(map(open_task, await transaction.ask(statement, asked)))
    if is_cut([task.new.lane for task in found], few, most):
        found = list(map(open_task, await transaction.ask(statement, asked | {"each": most})))
    return await held(transaction, worker, found)


class LaneValues:
    """The last values of `KEYED_TURN`: the lanes of a worker as columns, encoded once for each set of lanes."""

    def __init__(self) -> None:
        self._lanes: tuple[OwnedLane, ...] = ()
        self._written: list[Parameter] = []

    def of(self, lanes: tuple[OwnedLane, ...]) -> list[Parameter]:
        """Return the values of lanes, each column in binary form. O(1) for the same lanes as before."""
        if lanes is not self._lanes:
            columns = zip(_CASTS, *(_values(each, 0)[:-1] for each in lanes), strict=True)
            self._lanes, self._written = lanes, [written(cast, column) for cast, *column in columns]
        return self._written


def _columns(lanes: Sequence[OwnedLane], session: int) -> list[Parameter]:
    return [list(column) for column in zip(*(_values(each, session) for each in lanes), strict=True)]


def _values(lane: OwnedLane, session: int) -> tuple[str, int, int, int, str, int]:
    token = lane.token
    return lane.queue, lane.lane, token.incarnation, token.epoch, token.holder, session


def _parted(
    lanes: Sequence[OwnedLane], records: dict[tuple[str, int], LaneRecord]
) -> tuple[list[OwnedLane], list[OwnedLane]]:
    seen = [(each, records.get((each.queue, each.lane))) for each in lanes]
    return parted((lane, None if record is None else record.token) for lane, record in seen)


def _records(rows: Sequence[Sequence[Any]]) -> dict[tuple[str, int], LaneRecord]:
    return {(queue, lane): record_of(rest) for queue, lane, *rest in rows}


def record_of(row: Sequence[Any]) -> LaneRecord:
    """Return the record of a row of `SHOWN`, without its queue and lane."""
    incarnation, epoch, holder, session = row
    token = FencingToken(resource="", holder=holder, incarnation=incarnation, epoch=epoch)
    return LaneRecord(token=token, session=session)
