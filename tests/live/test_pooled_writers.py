"""Writers behind PgBouncer in transaction mode, while a group of slots moves between two databases, there and back.

The rows come by a log of keys, and go back by logical replication. The check reads the ledgers and the two databases
alone. Two writers have the driver psycopg, and two have asyncpg.
"""

import asyncio
import os
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta

import pytest

from apportion.shards import admin
from tests.live.pooled_writers import PORTS
from tests.live.writer_processes import servers, writing
from tests.shards.sample import SET
from tests.stores.rigs.pgbouncer import Pooler

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

WRITERS, CONNECTIONS, LEAST_ACKNOWLEDGED = 4, 2, 100
SHARDS = ("one", "two")


def test_writers_behind_a_pooler_lose_no_write_while_their_slots_move(tmp_path, record_property, monkeypatch):
    with servers(tmp_path, monkeypatch) as (files, user, _), ExitStack() as stack:
        poolers = {files.name(shard): pooler(stack, files, shard) for shard in SHARDS}
        ports = {PORTS: ",".join(f"{name}={each.port}" for name, each in poolers.items())}
        owned = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot")]
        with writing("tests.live.pooled_writers", files, WRITERS, user | ports):
            for target, channel in (("two", "keys"), ("one", "native")):
                asyncio.run(moved(files, owned[::2], target, channel))
        lent = [{row[0]: row[1] for row in each.tell("SHOW STATS_TOTALS")}[name] for name, each in poolers.items()]
        check(files, record_property)
    assert all(transactions > LEAST_ACKNOWLEDGED // 4 for transactions in lent)


def pooler(stack, files, shard):
    """Start the pooler of a shard, with fewer connections than there are writers."""
    made = Pooler(files.rig, connections=CONNECTIONS, database=files.name(shard))
    stack.callback(made.stop)
    return made


async def moved(files, slots, target, channel):
    """Move slots, and delete their old rows."""
    plan = await admin.plan(files.url, SET, slots=slots, to=target)
    assert (await admin.apply(files.url, SET, plan, channel=channel)).is_whole
    assert (await admin.clean(files.url, SET, soak=timedelta(0))).is_whole


def check(files, record_property):
    """Judge the ledgers and the rows: each acknowledged row is there once, on the shard that owns its slot."""
    lines = [[line.split() for line in each.read_text().splitlines()] for each in files.folder.glob("ledger-*")]
    acknowledged = [[line[1] for line in each if line[0] == "A"] for each in lines]
    refused = [line for each in lines for line in each if line[0] == "F"]
    rows = Counter(str(row) for shard in SHARDS for (row,) in files.sql(shard, "SELECT id FROM place"))
    strays = "SELECT id FROM place JOIN apportion.slot USING (slot) WHERE state <> 'owner'"
    record_property("acknowledged", sum(map(len, acknowledged)))
    record_property("refused", len(refused))
    assert Counter(row for each in acknowledged for row in each) == rows
    assert [[], []] == [files.sql(shard, strays) for shard in SHARDS]
    assert (WRITERS, True) == (len(acknowledged), all(acknowledged))
    assert sum(map(len, acknowledged)) >= LEAST_ACKNOWLEDGED or os.getloadavg()[0] > os.cpu_count()
