"""Values of every kind, under names that need quotes, are the same after a move between two databases of PostgreSQL."""

import asyncio
from datetime import timedelta
from itertools import cycle, product

import pytest
from sqlalchemy import BigInteger, Computed, DateTime, Identity, Integer, LargeBinary, Numeric, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.shards import Sharded, admin
from tests.shards import sample
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role

pytestmark = pytest.mark.live
TEXTS = ["", "\\N", "a\tb", "x\ny", "end\\", "'q'", '"dq"', "%s %%", "ü\U0001f600", "NULL", "\\.", "\r\n"]
NUMBERS = ["1.00", "NaN", "1e-30", "123456789012345678901234567890.5", "Infinity", "-Infinity"]
OTHERS = {
    "real": ("double precision", ["NaN", "-Infinity", "-0", "1e-310", "0.1", None]),
    "bytes": ("bytea", ["\\x005c78ff0a", "\\x", None]),
    "jsonb": ("jsonb", ['{"a": [1, null], "n": 1.50}', "null", None]),
    "json": ("json", ['{"twice":1,  "twice":2}', None]),
    "texts": ("text[]", ['{a,NULL,"NULL",""}', "{}", None]),
    "time": ("timestamptz", ["2026-01-01 00:00:00.123456+05", "infinity", "0001-01-01 00:00:00 BC", None]),
    "span": ("interval", ["1 year 2 mons -3 days", "-00:00:00.5", None]),
    "bits": ("bit varying", ["101", "", None]),
    "address": ("inet", ["::1/128", "10.0.0.1", None]),
    "range": ("tsrange", ["[2020-01-01,)", "empty", None]),
}


class Odd(DeclarativeBase):
    pass


class Thing(Sharded, Odd):
    __tablename__ = 'we%ird "table'
    __shard_key__ = "country"
    id: Mapped[str] = mapped_column('i%d "x', Text, primary_key=True)
    number = mapped_column("Number", Numeric, primary_key=True)
    country: Mapped[str]
    real = mapped_column(postgresql.DOUBLE_PRECISION)
    bytes = mapped_column(LargeBinary)
    jsonb = mapped_column(postgresql.JSONB)
    json = mapped_column(postgresql.JSON)
    texts = mapped_column(postgresql.ARRAY(Text))
    time = mapped_column(DateTime(timezone=True))
    span = mapped_column(postgresql.INTERVAL)
    bits = mapped_column(postgresql.BIT(varying=True))
    address = mapped_column(postgresql.INET)
    range = mapped_column(postgresql.TSRANGE)
    length = mapped_column(Integer, Computed("length(country)", persisted=True))
    given = mapped_column(BigInteger, Identity(always=True))


@pytest.fixture
def servers(rig, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    monkeypatch.setattr(sample, "Base", Odd)
    servers = Servers(rig, tmp_path)
    yield servers
    servers.drop()


def test_values_of_every_kind_are_the_same_after_a_move(servers):
    table, ours = '"we%%ird ""table"', ", ".join(f'"{name}"' for name in OTHERS)
    slots = [slot for (slot,) in servers.sql("one", "SELECT slot FROM apportion_slot")][:4]
    marks = ", ".join(f"%s::{kind}" for kind, _ in OTHERS.values())
    insert = f'INSERT INTO {table} ("i%%d ""x", "Number", country, slot, {ours}) VALUES (%s, %s, %s, %s, {marks})'
    others = zip(*(cycle(values) for _, values in OTHERS.values()), strict=True)
    for (text, number), slot, values in zip(product(TEXTS, NUMBERS), cycle(slots), others, strict=False):
        servers.sql("one", insert, (text, number, "FR", slot, *values))
    rows = f"SELECT kept::text FROM {table} kept ORDER BY given"
    before = servers.sql("one", rows)

    async def main():
        plan = await admin.plan(servers.url, SET, slots=slots, to="two")
        assert (await admin.apply(servers.url, SET, plan)).is_whole
        assert (await admin.clean(servers.url, SET, soak=timedelta(0))).is_whole

    asyncio.run(main())
    assert (len(TEXTS) * len(NUMBERS), before) == (len(before), servers.sql("two", rows))
    assert [] == servers.sql("one", rows)
