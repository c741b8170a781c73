"""Sets with a table in partitions on a PostgreSQL server, and the passing of years."""

import asyncio
from datetime import UTC, date, datetime

from apportion.shards import admin
from apportion.shards.periods.period import starts_after
from apportion.shards.postgres.partitions.server import PartitionServer
from tests.shards.sample import SET

PARTS = """SELECT p.relname, pg_get_expr(p.relpartbound, p.oid) FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid
    WHERE i.inhparent = 'event'::regclass ORDER BY 1"""
INSERT = "INSERT INTO event (id, created_at, country, slot) SELECT gen_random_uuid(), %s, 'FR', %s"
LEFT = """SELECT relname FROM pg_class WHERE relnamespace = 'apportion_periods'::regnamespace AND relkind = 'r'
    AND NOT relispartition ORDER BY 1"""


def this_month():
    return datetime.now(UTC).date().replace(day=1)


def month(count):
    """Return the first day of the month that comes some months after the present one."""
    return starts_after("month", this_month(), count)


def name(day, side=""):
    return f"event_{side}{day:%Y%m%d}"


def at(monkeypatch, day):
    """Let the servers of partitions have another day."""

    async def today(_):
        return day

    monkeypatch.setattr(PartitionServer, "today", today)


def parts(files, shard="one"):
    return [each for each, _ in files.sql(shard, PARTS)]


def slots_of(files, shard="one"):
    return [slot for (slot,) in files.sql(shard, "SELECT slot FROM apportion_slot WHERE state = 'owner' ORDER BY slot")]


def put(files, day, count=1, shard="one"):
    """Insert rows of a day on a shard."""
    slot = slots_of(files, shard)[0]
    for _ in range(count):
        files.sql(shard, INSERT, (day, slot))


def run(files, **options):
    return asyncio.run(admin.partitions(files.url, SET, **options))


def shard_in(found, shard="one"):
    return next(each for each in found.shards if each.shard == shard)


LONG_AGO, FAR = date(1999, 5, 5), date(2199, 5, 5)
