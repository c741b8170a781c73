"""The totals of a slot differ if one value of a row differs, even if PostgreSQL takes both values for equal."""

import asyncio

import psycopg
import pytest

from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.server import rows
from apportion.shards.postgres.tables import ServerTable
from apportion.shards.postgres.transport import slot_totals
from tests.shards.server import OWNER
from tests.stores.rigs.postgres import SECRET

pytestmark = pytest.mark.live
GROUP = MoveGroup(move="m1", source="one", target="two", slots=(1, 2))

# Each type has pairs of values that differ. PostgreSQL takes some of them for equal, and hashes these alike.
PAIRS = {
    "bigint": [("1", "4294967297"), ("0", "4294967297"), ("-1", "4294967295"), ("0", None)],
    "smallint": [("1", "-1")],
    "boolean": [("true", "false"), ("false", None)],
    "text": [("a", "A"), ("", None), ("a", "a "), ("é", "e\u0301")],
    'text COLLATE "nocase"': [("a", "A"), ("é", "e\u0301")],
    "character varying(20)": [("a", "a ")],
    'character varying(20) COLLATE "nocase"': [("a", "A")],
    "bytea": [("\\x00ff", "\\x00fe"), ("\\x", None)],
    "uuid": [("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000000")],
    "date": [("2026-01-01", "2026-01-02"), ("infinity", "-infinity")],
    "timestamp(3) without time zone": [("2026-01-01 00:00:00.001", "2026-01-01")],
    "timestamp without time zone": [("1999-12-31 23:59:59.999999", "2000-01-01 01:11:34.967295")],
    "timestamp with time zone": [
        ("2026-01-01 00:00:00.000001Z", "2026-01-01Z"),
        ("2000-01-01Z", "2000-01-01 01:11:34.967297Z"),
    ],
    "numeric": [("1.0", "1.00"), ("0", "0.0"), ("NaN", "Infinity")],
    "double precision": [("0", "-0"), ("0.1", "0.10000000000000002")],
    "interval": [("1 day", "24:00:00"), ("1 mon", "30 days")],
    "time with time zone": [("12:00+00", "13:00+01")],
    "jsonb": [('{"a": 1.0}', '{"a": 1.00}'), ("null", None)],
    "json": [('{"a":1}', '{"a": 1}')],
    "numeric[]": [("{1.0}", "{1.00}"), ("{}", "{NULL}")],
    "text[]": [("{NULL}", '{"NULL"}')],
    "public.citext": [("a", "A")],
    "mood": [("calm", "angry"), ("calm", "serene")],
    "bpchar": [("a", "a ")],
    "point": [("(1,2)", "(1,3)")],
    "xml": [("<a/>", "<a></a>")],
}
SETUP = (
    "CREATE EXTENSION IF NOT EXISTS citext SCHEMA public",
    "CREATE COLLATION pg_temp.nocase (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
    "CREATE TYPE pg_temp.mood AS ENUM ('calm', 'serene', 'angry')",
    "CREATE FUNCTION pg_temp.said(pg_temp.mood) RETURNS text RETURN CASE $1 WHEN 'angry' THEN 'bad' ELSE 'good' END",
    "CREATE CAST (pg_temp.mood AS text) WITH FUNCTION pg_temp.said(pg_temp.mood)",
    "SET search_path = pg_catalog, pg_temp",
    "SET extra_float_digits = 3",
)


@pytest.fixture
def totals(rig):
    """Return a function that fills a table of one type with values, and returns the totals of its slots."""
    host, port = rig.address()
    place = {"host": host, "port": port, "user": OWNER, "password": SECRET, "dbname": "postgres"}

    def totals(kind, values):
        async def main():
            async with await psycopg.AsyncConnection.connect(**place, autocommit=True) as base:
                for each in SETUP:
                    await base.execute(each)
                own = kind.replace('"nocase"', "pg_temp.nocase").replace("mood", "pg_temp.mood")
                await base.execute(f"CREATE TEMP TABLE thing (slot smallint, id bigint, value {own})")
                for number, value in enumerate(values):
                    await base.execute("INSERT INTO thing VALUES (1, %s, %s::text::" + own + ")", (number, value))
                [(shown,)] = await rows(
                    base,
                    "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'value'"
                    " AND attrelid = 'pg_temp.thing'::regclass",
                )
                columns = (("slot", "smallint"), ("id", "bigint"), ("value", shown))
                return await rows(base, slot_totals(GROUP, _table(columns)))

        return asyncio.run(main())

    return totals


def _table(columns):
    forms = (("id", "bigint"),)
    return ServerTable(
        name="pg_temp.thing",
        key=("id",),
        key_names=("id",),
        key_forms=forms,
        columns=columns,
        uniques=frozenset(),
        rivalries=(),
    )


@pytest.mark.parametrize(("kind", "pair"), [(kind, pair) for kind, pairs in PAIRS.items() for pair in pairs])
def test_totals_tell_one_other_value(totals, kind, pair):
    one, other = pair
    same, changed = totals(kind, [one, one, other]), totals(kind, [one, other, other])
    assert (same, same[0][1]) == (totals(kind, [one, one, other]), 3)
    assert same != changed


@pytest.mark.parametrize("kind", ["bigint", "text", "numeric", "uuid"])
def test_totals_tell_rows_that_have_exchanged_their_values(totals, kind):
    one, other = PAIRS[kind][0]
    assert totals(kind, [one, other]) != totals(kind, [other, one])


def test_totals_tell_a_row_less_and_a_row_of_another_slot(totals):
    assert totals("bigint", ["1", "1"]) != totals("bigint", ["1"])
    assert [(1, 2)] == [row[:2] for row in totals("bigint", ["1", "1"])]
    assert [] == totals("bigint", [])
