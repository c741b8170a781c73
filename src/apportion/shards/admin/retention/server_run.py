"""Run on one shard in PostgreSQL: partitions come and leave.

The control store keeps the bounds, the rows and the bytes of each partition, and the time at which it was first seen.

Promises: an old partition is detached first, then archived, then dropped. So no row changes behind its archive.
"""

import asyncio
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

from apportion.errors import BadSnapshot
from apportion.model.epoch import FencingToken
from apportion.shards.admin.retention.values import PartitionTask, ShardPartitions
from apportion.shards.periods.archive import ArchiveFile, ArchiveReader, ArchiveWriter, archive_name
from apportion.shards.periods.records import TimePartition, aged, note_partitions, noted_partitions
from apportion.shards.periods.timed_table import TimedTable
from apportion.shards.postgres.partitions.server import PartitionServer
from apportion.shards.postgres.server import ServerPlace


async def run_on_server(task: PartitionTask) -> ShardPartitions:
    """Make the periods that are wished, and let the old ones leave. Without a token, only read."""
    place = ServerPlace(
        set_name=task.followed.keys.name,
        shard=task.shard,
        address=task.record.address(),
        timeline=None if task.token is None else task.record.timeline,
    )
    server = PartitionServer(place)
    try:
        run = _ServerRun(task, server)
        if task.token is None:
            return await run.seen()
        return await run.done(task.token)
    finally:
        await server.close()


class _ServerRun:
    def __init__(self, task: PartitionTask, server: PartitionServer) -> None:
        self._task, self._server = task, server
        self._followed, self._wish = task.followed, task.wish
        self._tables = tuple(task.tables.values())

    async def seen(self) -> ShardPartitions:
        """Return the partitions, and those that are due."""
        store, keys = self._followed.store, self._followed.keys
        known = await noted_partitions(store, keys, self._task.shard)
        due = [each for timed in self._tables for each in await self._due(timed)]
        found = aged(known, await self._found())
        return ShardPartitions(shard=self._task.shard, partitions=found, due=tuple(due))

    async def done(self, token: FencingToken) -> ShardPartitions:
        """Make and drop partitions. Return all that are there then."""
        wish, made, due, dropped = self._wish, list[str](), list[TimePartition](), list[str]()
        rows = 0
        if wish.ahead is not None:
            for timed in self._tables:
                made += await self._grown(token, timed, wish.ahead)
        await self._noted()
        for timed in self._tables:
            found = await self._due(timed)
            due += found
            if wish.drop and found:
                for each in await self._detached(token, timed, found):
                    rows += await self._left(token, timed, each)
                    dropped.append(each.name)
        return ShardPartitions(
            shard=self._task.shard,
            partitions=await self._noted(),
            due=tuple(due),
            made=tuple(made),
            dropped=tuple(dropped),
            rows_dropped=rows,
        )

    async def _found(self) -> list[TimePartition]:
        layouts = [await self._server.layout(timed) for timed in self._tables]
        now = int(time.time())
        return [replace(each, made=now) for layout in layouts for each in (*layout.partitions, *layout.detached)]

    async def _noted(self) -> tuple[TimePartition, ...]:
        store, keys = self._followed.store, self._followed.keys
        return await note_partitions(store, keys, self._task.shard, await self._found())

    async def _grown(self, token: FencingToken, timed: TimedTable, ahead: int) -> list[str]:
        made = list[str]()
        while True:
            self._task.check()
            name = await self._server.grow(self._task, token, timed, ahead)
            if name is None:
                return made
            made.append(name)
            self._task.tell("made", timed.name, name)

    async def _due(self, timed: TimedTable) -> list[TimePartition]:
        """Return the partitions with old rows alone, and those that were detached before.

        The partition of all earlier rows is due with the first period. Without rows, it alone is not due.
        """
        layout, cutoff = await self._server.layout(timed), self._wish.cutoff(timed, await self._server.today())
        if cutoff is None:
            return []
        due = [each for each in layout.partitions if each.upper is not None and each.upper <= cutoff]
        is_idle = len(due) == 1 and due[0].lower is None and due[0].name not in layout.pending
        if is_idle and not await self._server.has_rows(due[0].name):
            due = []
        return [*due, *layout.detached]

    async def _detached(
        self, token: FencingToken, timed: TimedTable, due: list[TimePartition]
    ) -> tuple[TimePartition, ...]:
        """Detach partitions, and return all that are detached. Then rows of any earlier time have a place again."""
        for each in due:
            if each.state == "attached":
                self._task.check()
                await self._server.detach(self._task, token, timed, each)
                self._task.tell("detached", timed.name, each.name)
        await self._server.close_gap(self._task, token, timed)
        return (await self._server.layout(timed)).detached

    async def _left(self, token: FencingToken, timed: TimedTable, each: TimePartition) -> int:
        """Archive a detached partition if it is wished, and drop it. Return its rows."""
        rows = await self._server.count(each.name)
        folder = self._wish.archive
        if folder is not None and rows:
            await self._archived(folder, timed, each)
            self._task.tell("archived", timed.name, each.name, rows)
        self._task.check()
        await self._server.drop(self._task, token, each.name)
        self._task.tell("dropped", timed.name, each.name, rows)
        return rows

    async def _archived(self, folder: Path, timed: TimedTable, each: TimePartition) -> None:
        """Write the rows to a file, unless a whole one has them already. Then read the file back, and compare it.

        An earlier partition of the same name may have left a file. Then the next number makes another name.
        """
        keys, shard = self._followed.keys, self._task.shard
        facts: dict[str, object] = {"set": keys.name, "shard": shard, "table": timed.name, "partition": each.name}
        for number in count(1):
            name = archive_name(keys.name, shard, each.name, *([f"{number}"] if number > 1 else []))
            archive = ArchiveFile(folder, name, "copy", facts)
            is_there = await asyncio.to_thread(archive.entry) is not None
            if not is_there:
                writer = await asyncio.to_thread(ArchiveWriter, archive)
                columns = await self._server.copied(each.name, writer.take)
                await asyncio.to_thread(archive.finish, columns, writer)
            reader = ArchiveReader(archive, f"partition {each.name} of shard {shard}")
            try:
                await self._server.copied(each.name, reader.take)
                await asyncio.to_thread(reader.end)
            except BadSnapshot:
                if not is_there:
                    raise
            else:
                return
