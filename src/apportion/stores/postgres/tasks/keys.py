"""The questions about keys, and the number of partitions of a queue, in PostgreSQL."""

from typing import Any

from apportion.stores.keys.partitions import agreed
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, KeyHead, KeyStats, LaneOwner, OwnerOfLane, owner
from apportion.stores.lanes.tokens import check_resizable
from apportion.stores.lanes.values import KEYED_LANES, AgreePartitions, MendLane, ResizePartitions
from apportion.stores.postgres.door import Transaction
from apportion.stores.postgres.driver import Parameter
from apportion.stores.postgres.tasks.lanes import record_of
from apportion.stores.postgres.tasks.statements import OPEN, PARTITIONS
from apportion.stores.task_rows import open_task

_BUSIEST = (
    "SELECT key, lane, count(*) FROM {schema}.task"
    " WHERE queue = %s AND key IS NOT NULL AND session IS NULL AND blocking = 0"
    " GROUP BY key, lane ORDER BY 3 DESC, key LIMIT %s"
)
_HEAD = f"{OPEN} WHERE queue = %s AND key = %s ORDER BY session IS NULL, pos LIMIT 1"
_LANE = (
    "SELECT incarnation, epoch, holder, session, EXISTS (SELECT FROM {schema}.lease WHERE id = lane.session)"
    " FROM {schema}.lane WHERE queue = %s AND lane = %s"
)
_MEND = (
    "UPDATE {schema}.lane SET incarnation = %s, epoch = %s, holder = %s, session = %s"
    " WHERE queue = %s AND lane = %s"
    " AND (incarnation, epoch) >= (%s, %s) AND (incarnation, epoch, holder) <> (%s, %s, %s) RETURNING lane"
)
_COUNT = "SELECT count(*) FROM {schema}.task WHERE queue = %s AND key IS NOT NULL"
_CONTROL = "INSERT INTO {schema}.control (queue) VALUES (%s) ON CONFLICT DO NOTHING"
# A resize waits for open transactions that enqueue keyed tasks. `AgreePartitions` waits only for changes of the row.
_AGREED, _RESIZED = f"{PARTITIONS} FOR NO KEY UPDATE", f"{PARTITIONS} FOR UPDATE"
_SET = "UPDATE {schema}.control SET partitions = %s WHERE queue = %s"


async def busiest(transaction: Transaction, question: BusiestKeys) -> tuple[KeyStats, ...]:
    """Return the answer to `BusiestKeys`."""
    rows: list[Any] = await transaction.ask(_BUSIEST, [question.queue, question.most])
    return tuple(KeyStats(key=key, lane=lane, waiting=count) for key, lane, count in rows)


async def head(transaction: Transaction, question: HeadOfKey) -> KeyHead | None:
    """Return the answer to `HeadOfKey`."""
    found = list(map(open_task, await transaction.ask(_HEAD, [question.queue, question.key])))
    return KeyHead(task=found[0].id, state=found[0].state) if found else None


async def owner_of(transaction: Transaction, question: OwnerOfLane) -> LaneOwner | None:
    """Return the answer to `OwnerOfLane`."""
    rows: list[Any] = await transaction.ask(_LANE, [question.queue, KEYED_LANES + question.partition])
    records = [(record_of(row[:4]), row[4]) for row in rows]
    alive = [record.session for record, is_alive in records if is_alive]
    return owner(records[0][0] if records else None, question, alive)


async def set_partitions(transaction: Transaction, command: AgreePartitions | ResizePartitions) -> None:
    """Set the number of partitions of a queue, under a lock on the row of the queue."""
    await transaction.ask(_CONTROL, [command.queue])
    is_resize = isinstance(command, ResizePartitions)
    [(found,)] = await transaction.ask(_RESIZED if is_resize else _AGREED, [command.queue])
    if is_resize:
        [(count,)] = await transaction.ask(_COUNT, [command.queue])
        check_resizable(command.queue, int(str(count)))
    else:
        agreed(command.queue, None if found is None else int(str(found)), command.partitions)
    await transaction.ask(_SET, [command.partitions, command.queue])


async def mend_lane(transaction: Transaction, command: MendLane) -> int:
    """Give a lane the token of its owner, if another token fences the owner; return the number of changed lanes."""
    lane, token = command.owned, command.owned.token
    place = (token.incarnation, token.epoch)
    shown: list[Parameter] = [*place, token.holder]
    values = [*shown, command.session, lane.queue, lane.lane, *place, *shown]
    return len(await transaction.ask(_MEND, values))
