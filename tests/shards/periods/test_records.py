"""Records of periods: they come back as they were written, a changed period is refused, and damage is named."""

import asyncio
import json
from dataclasses import replace
from datetime import date

import pytest
from sqlalchemy import MetaData

from apportion.errors import BadSnapshot, InvalidInput
from apportion.shards import admin
from apportion.shards.periods.records import (
    TimePartition,
    aged,
    decode_partitions,
    decode_tables,
    encode_partitions,
    encode_tables,
    note_partitions,
    note_tables,
    noted_partitions,
    timed_tables,
)
from apportion.shards.periods.timed_table import TimedTable
from apportion.shards.records import SetKeys
from apportion.stores.catalog import connect
from tests.shards.periods.models import Base, model
from tests.shards.sample import SET, Files

KEYS = SetKeys(SET)
JANUARY = TimePartition(
    table="event",
    name="event_20260101",
    lower=date(2026, 1, 1),
    upper=date(2026, 2, 1),
    made=100,
    rows=7,
    bytes=8192,
)
TABLES = {"event": TimedTable(name="event", column="created_at", length="month")}


def in_store(folder, work):
    async def main():
        store = await connect(f"sqlite:///{folder}/control.db")
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


def test_records_come_back_as_they_were_written():
    assert TABLES == decode_tables(encode_tables(TABLES))
    some = (JANUARY, replace(JANUARY, lower=None, name="event_until_20260101", state="detached"))
    assert some == decode_partitions(encode_partitions(some))


@pytest.mark.parametrize(
    ("name", "value"), [("lower", "2026-13-01"), ("state", "gone"), ("rows", "7"), ("made", True), ("table", 1)]
)
def test_a_damaged_field_of_a_partition_is_refused(name, value):
    form = json.loads(encode_partitions((JANUARY,)))
    form["partitions"][0][name] = value
    with pytest.raises(BadSnapshot, match="field partitions"):
        decode_partitions(json.dumps(form).encode())


def test_a_detached_partition_keeps_its_bounds_and_the_time_at_which_it_was_made():
    wide = replace(JANUARY, upper=date(2026, 4, 1))
    found = replace(JANUARY, state="detached", made=900, rows=9)
    assert (replace(found, upper=wide.upper, made=100),) == aged((wide,), (found,))


def test_the_store_keeps_the_first_time_at_which_a_partition_was_seen(tmp_path):
    async def work(store):
        await note_partitions(store, KEYS, "one", [JANUARY])
        await note_partitions(store, KEYS, "one", [replace(JANUARY, made=900, rows=9)])
        return await noted_partitions(store, KEYS, "one"), await noted_partitions(store, KEYS, "two")

    assert ((replace(JANUARY, rows=9),), ()) == in_store(tmp_path, work)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"__shard_period__": "day"}, "period of table event is 'day', expected month, as the set has it"),
        ({"__shard_period__": None, "__shard_time__": None}, "period of table event is None, expected month"),
    ],
)
def test_a_period_that_was_changed_later_is_refused(tmp_path, parts, said):
    other = model(**parts)

    async def work(store):
        await note_tables(store, KEYS, Base.metadata)
        await note_tables(store, KEYS, MetaData())
        with pytest.raises(InvalidInput, match=said):
            await note_tables(store, KEYS, other.metadata)
        return (await timed_tables(store, KEYS))[0]

    assert TABLES == in_store(tmp_path, work)


def test_init_and_add_refuse_a_changed_period_before_they_write(tmp_path):
    files = Files(tmp_path, shards=("one",), base=Base)
    other = type("Other", (), {})
    del other
    daily = model(__shard_period__="day")
    with pytest.raises(InvalidInput, match="period of table event"):
        asyncio.run(admin.add(files.url, SET, {"two": files.place("two")}, base=daily.__bases__[1]))
    assert not (tmp_path / "two.db").exists()
