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
from tests.live.shard_verdict import read_shard, verdict
from tests.live.writer_processes import servers, writing
from tests.shards.sample import SET
from tests.stores.rigs.pgbouncer import Pooler

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

WRITERS, CONNECTIONS, LEAST_ACKNOWLEDGED = 4, 2, 400
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
    assert all(transactions > LEAST_ACKNOWLEDGED // 8 for transactions in lent)


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
    """Judge the ledgers and the rows: each acknowledged write is there once, on the shard that owns its slot."""
    result = verdict(files.folder, [read_shard(files, shard) for shard in SHARDS])
    lines = [line.split() for each in files.folder.glob("ledger-*") for line in each.read_text().splitlines()]
    failed = Counter(line[3] for line in lines if line[0] == "F")
    strays = "SELECT count(*) FROM place p JOIN apportion.slot s USING (slot) WHERE s.state <> 'owner'"
    record_property("acknowledged", result.acknowledged)
    record_property("failed", f"{failed}")
    assert {"lost": 0, "stale": 0, "resurrected": 0, "owned_twice": 0} == result.harm
    assert [[(0,)]] * 2 == [files.sql(shard, strays) for shard in SHARDS]
    assert set() == {*failed} - {"StaleRoute"}
    assert {str(writer) for writer in range(WRITERS)} == {line[1][1] for line in lines if line[0] == "A"}
    assert result.acknowledged >= LEAST_ACKNOWLEDGED or os.getloadavg()[0] > os.cpu_count()
