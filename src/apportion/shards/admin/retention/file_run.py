"""Run on one shard in a file: old rows leave their table."""

from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.engine import make_url

from apportion.shards.admin.retention.values import PartitionTask, ShardPartitions
from apportion.shards.periods.records import TimePartition
from apportion.shards.sqlite.file import ShardPath
from apportion.shards.sqlite.old_rows import OldRows


async def run_in_file(task: PartitionTask) -> ShardPartitions:
    """Count the old rows of each table. If it is wished, archive and delete them."""
    path = Path(f"{make_url(task.record.address()).database}")
    rows = OldRows(ShardPath(set_name=task.followed.keys.name, shard=task.shard, path=path))
    due, dropped, total = [], [], 0
    try:
        for timed in task.tables.values():
            cutoff = task.wish.cutoff(timed, datetime.now(UTC).date())
            number = 0 if cutoff is None else await rows.count(timed, cutoff)
            if cutoff is not None and number:
                due.append(TimePartition(table=timed.name, name=timed.name, lower=None, upper=cutoff, rows=number))
            if cutoff is None or task.token is None or not task.wish.drop:
                continue
            task.check()
            if task.wish.archive is None:
                gone = await rows.delete(task, task.token, timed, cutoff)
            else:
                gone = await rows.archive(task, task.token, timed, cutoff, task.wish.archive)
            if gone:
                dropped.append(timed.name)
                total += gone
                task.tell("dropped", timed.name, timed.name, gone)
    finally:
        await rows.close()
    return ShardPartitions(shard=task.shard, due=tuple(due), dropped=tuple(dropped), rows_dropped=total)
