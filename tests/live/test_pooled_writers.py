"""Writers behind PgBouncer in transaction mode, while a group of slots moves between two databases, there and back.

The rows come by a log of keys, and go back by logical replication. Half of the writers have the driver psycopg, the
others have asyncpg. The check reads the ledgers and the two databases alone. `APPORTION_GROUP_RUNS=500` asks for kills
of a mover, and of the server that the slots leave.
"""

import asyncio
import os
from collections import Counter
from contextlib import ExitStack, closing
from datetime import timedelta

import pytest

from apportion.shards import admin
from tests.live.move_courses import there, there_and_back
from tests.live.pooled_writers import PORTS
from tests.live.test_servers_killed import IS_LONG, apart, judged, killed, orders_to
from tests.live.test_servers_killed import check as check_orders
from tests.live.writer_processes import servers, writing
from tests.shards.sample import SET
from tests.stores.rigs.pgbouncer import Pooler

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

WRITERS, CONNECTIONS, LEAST_ACKNOWLEDGED = 4, 2, 100
MORE_CONNECTIONS, LEAST_BESIDE = 4, 4
SHARDS = ("one", "two")
STRAYS = "SELECT id FROM place LEFT JOIN apportion.slot USING (slot) WHERE state IS DISTINCT FROM 'owner'"
KILLS = (
    (there_and_back, "mover", "keys", {"announce.after": ("mover", "back")}),
    (there, "source", "native", {"chunk.after": ("source", "back")}),
)
"""The courses, each with its victim, its channel, and a point. The tokens of movers grow in this order."""


def test_writers_behind_a_pooler_lose_no_write_while_their_slots_move(tmp_path, record_property, monkeypatch):
    with servers(tmp_path, monkeypatch) as (files, user, _), ExitStack() as stack:
        poolers, ports = pooled(stack, files)
        owned = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot")]
        with writing("tests.live.pooled_writers", files, WRITERS, user | ports):
            for target, channel in (("two", "keys"), ("one", "native")):
                asyncio.run(moved(files, owned[::2], target, channel))
        lent = [{row[0]: row[1] for row in each.tell("SHOW STATS_TOTALS")}[name] for name, each in poolers.items()]
        check(files, record_property)
    assert all(transactions > LEAST_ACKNOWLEDGED // 4 for transactions in lent)


@(pytest.mark.live if IS_LONG else pytest.mark.soak)
def test_they_lose_none_when_a_mover_or_the_server_of_the_source_is_killed(tmp_path, record_property, monkeypatch):
    with apart(tmp_path, monkeypatch) as (files, user, owner), ExitStack() as stack:
        (_, ports), played = pooled(stack, files, MORE_CONNECTIONS), []
        with killed(files, user | ports, "tests.live.pooled_slot_writers") as kills:
            for course, victim, channel, due in KILLS:
                with closing(orders_to(victim, files, channel, kills, owner, LEAST_BESIDE)) as orders:
                    orders.play(course, due)
                played.append(orders)
        judged(files, record_property, f"kills beside writers behind a pooler: {len(kills.done)}")
        assert [[], []] == [files.sql(shard, STRAYS) for shard in SHARDS]
    for orders in played:
        check_orders(orders, 1)


def pooled(stack, files, connections=CONNECTIONS):
    """Start the pooler of each shard, with fewer connections than there are writers. Return them, and their ports."""
    made = {}
    for shard in SHARDS:
        name = files.name(shard)
        made[name] = Pooler(files.rig_of(shard), connections=connections, database=name)
        stack.callback(made[name].stop)
    return made, {PORTS: ",".join(f"{name}={each.port}" for name, each in made.items())}


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
    record_property("acknowledged", sum(map(len, acknowledged)))
    record_property("refused", len(refused))
    assert Counter(row for each in acknowledged for row in each) == rows
    assert [[], []] == [files.sql(shard, STRAYS) for shard in SHARDS]
    assert (WRITERS, True) == (len(acknowledged), all(acknowledged))
    assert sum(map(len, acknowledged)) >= LEAST_ACKNOWLEDGED or os.getloadavg()[0] > os.cpu_count()
