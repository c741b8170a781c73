"""The questions about keys, and the number of partitions of a queue, in an SQLite file."""

from collections.abc import Sequence

from apportion.stores.keys.partitions import agreed
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, KeyHead, KeyStats, LaneOwner, OwnerOfLane, owner
from apportion.stores.lanes.tokens import check_resizable
from apportion.stores.lanes.values import KEYED_LANES, AgreePartitions, MendLane, ResizePartitions
from apportion.stores.sqlite import statements as lease_sql
from apportion.stores.sqlite.claims.lanes import record_of
from apportion.stores.sqlite.connection import Connection, value_of
from apportion.stores.sqlite.task_statements import OPEN
from apportion.stores.task_rows import open_task

_BUSIEST = (
    "SELECT key, lane, count(*) FROM task WHERE queue = ? AND key IS NOT NULL AND session IS NULL AND NOT blocking"
    " GROUP BY key, lane ORDER BY 3 DESC, key LIMIT ?"
)
HEAD = f"{OPEN} WHERE queue = ? AND key = ? ORDER BY session IS NULL, pos LIMIT 1"
_LANE = "SELECT incarnation, epoch, holder, session FROM lane WHERE queue = ? AND lane = ?"
_MEND = (
    "UPDATE lane SET incarnation = ?1, epoch = ?2, holder = ?3, session = ?4"
    " WHERE queue = ?5 AND lane = ?6"
    " AND (incarnation, epoch) >= (?1, ?2) AND (incarnation, epoch, holder) <> (?1, ?2, ?3) RETURNING lane"
)
_COUNT = "SELECT count(*) FROM task WHERE queue = ? AND key IS NOT NULL"
_PARTITIONS = "SELECT partitions FROM control WHERE queue = ?"
_SET = (
    "INSERT INTO control (queue, partitions) VALUES (?, ?)"
    " ON CONFLICT (queue) DO UPDATE SET partitions = excluded.partitions"
)


def busiest(connection: Connection, question: BusiestKeys) -> tuple[KeyStats, ...]:
    """Return the answer to `BusiestKeys`."""
    rows = connection.execute(_BUSIEST, (question.queue, question.most)).fetchall()
    return tuple(KeyStats(key=key, lane=lane, waiting=count) for key, lane, count in rows)


def head(connection: Connection, question: HeadOfKey) -> KeyHead | None:
    """Return the answer to `HeadOfKey`."""
    found = [open_task(row) for row in connection.execute(HEAD, (question.queue, question.key)).fetchall()]
    return KeyHead(task=found[0].id, state=found[0].state) if found else None


def owner_of(connection: Connection, question: OwnerOfLane) -> LaneOwner | None:
    """Return the answer to `OwnerOfLane`."""
    place = (question.queue, KEYED_LANES + question.partition)
    rows: Sequence[Sequence[object]] = connection.execute(_LANE, place).fetchall()
    record = record_of(rows[0]) if rows else None
    is_alive = record is not None and value_of(connection, lease_sql.LEASE, (record.session,)) is not None
    return owner(record, question, {record.session} if record is not None and is_alive else ())


def set_partitions(connection: Connection, command: AgreePartitions | ResizePartitions) -> None:
    """Do a command about the number of partitions."""
    if isinstance(command, ResizePartitions):
        check_resizable(command.queue, int(value_of(connection, _COUNT, (command.queue,))))
    else:
        agreed(command.queue, value_of(connection, _PARTITIONS, (command.queue,)), command.partitions)
    connection.execute(_SET, (command.queue, command.partitions))


def mend_lane(connection: Connection, command: MendLane) -> int:
    """Give a lane the token of its owner, if another token fences the owner; return the number of changed lanes."""
    lane = command.owned
    token = (lane.token.incarnation, lane.token.epoch, lane.token.holder, command.session)
    return len(connection.execute(_MEND, (*token, lane.queue, lane.lane)).fetchall())
