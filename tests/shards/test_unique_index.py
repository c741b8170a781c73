"""Unique indexes over expressions, over some rows, and with a collation: the rows that a new row replaces are found."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from apportion.shards.sqlite.unique_index import unique_indexes
from tests.shards.sqlite_pair import TOKEN, FilePair, copied, opened

INDEXES = {
    "some rows": "place (note) WHERE visits = 7",
    "an expression": "place (lower(note))",
    "two terms, one descending": """place ("country" DESC, substr(note, 1, length(note)) /* all */ ASC)""",
    "a collation": "place (note COLLATE NOCASE)",
    "a constant": "place ((1)) WHERE note = 'Bob' COLLATE NOCASE",
}


@pytest.fixture(params=INDEXES)
def pair(tmp_path, request):
    """Two files. A place in slot 3 moves, and a place in slot 5 stays; the index does not allow both names at once."""
    made = FilePair(tmp_path, rows=0)
    for shard in ("one", "two"):
        made.sql(shard, f"CREATE UNIQUE INDEX other ON {INDEXES[request.param]}")
    made.sql("one", "INSERT INTO place VALUES (3, 'moves', 'FR', 7, 'Bob'), (5, 'stays', 'FR', 7, 'Tom')")
    return made


def followed(pair, *statements):
    """Copy the group, run statements on the source, and let them follow. Compare the rows, and return their ids."""

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            for statement in statements:
                pair.sql("one", *statement.split(";"))
                channel._log._portion.rows = 1
                await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")
    return [key for (key,) in pair.sql("two", "SELECT id FROM place ORDER BY id")]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO place VALUES (5, 'new', 'FR', 7, 'Bob')",
        "UPDATE OR REPLACE place SET note = 'Bob' WHERE id = 'stays'",
    ],
)
def test_a_row_that_a_row_of_another_slot_replaces_is_logged(pair, statement):
    assert [] == followed(pair, statement)


def test_names_that_change_places_arrive_in_any_order(pair):
    turn = "UPDATE place SET note = 'none' WHERE id = 'moves'; INSERT INTO place VALUES (3, 'a', 'FR', 7, 'Bob')"
    back = """UPDATE place SET visits = visits WHERE id = 'moves'; UPDATE place SET note = 'other' WHERE id = 'a';
        UPDATE place SET note = 'Bob' WHERE id = 'moves'"""
    assert ["a", "moves"] == followed(pair, turn, back)


def test_a_term_ends_at_its_comma_and_a_condition_at_the_end():
    with closing(sqlite3.connect(":memory:")) as connection:
        columns = """id INTEGER PRIMARY KEY, "a,b" TEXT, "c)" TEXT, up AS (upper("c)"))"""
        connection.execute(f'CREATE TABLE "t(," ({columns})')
        statement = """ON "t(," (lower("a,b") COLLATE nocase DESC, -- one, two)
            [c)] || '(,''') WHERE "c)" <> ')' AND id > (1)"""
        connection.execute(f"CREATE UNIQUE INDEX one {statement}")
        key, found = unique_indexes(connection, "t(,", ("id",))
    assert ('"id"',) == key.terms
    assert ('lower("a,b") COLLATE nocase', "[c)] || '(,'''") == found.terms
    assert """"c)" <> ')' AND id > (1)""" == found.condition
    assert {"id", "a,b", "c)"} == set(found.columns)
