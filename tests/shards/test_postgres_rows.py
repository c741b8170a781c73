"""Rows that a move between two databases of PostgreSQL could not bring over: writers and the mover go on with each."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.errors import InvalidInput
from apportion.shards import Sharded, admin
from apportion.shards.postgres.schema import triggers
from tests.shards import sample
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role, translated

pytestmark = pytest.mark.live
ROWS = 520  # more than a chunk


class Plain(DeclarativeBase):
    pass


class Thing(Sharded, Plain):
    __tablename__ = "thing"
    __shard_key__ = "country"
    id: Mapped[str] = mapped_column(Text, primary_key=True)
    country: Mapped[str]


# Each rule has a column of its own, the value that a row gives up, and the value that another row takes then.
RULES = {
    "CREATE UNIQUE INDEX ON thing (m0)": ("x", "x"),
    "CREATE UNIQUE INDEX ON thing (m1) WHERE id < 'l' AND m1 <> ''": ("x", "x"),
    "CREATE UNIQUE INDEX ON thing (lower(m2))": ("x", "X"),
    "ALTER TABLE thing ADD low text UNIQUE GENERATED ALWAYS AS (lower(m3)) STORED": ("x", "X"),
    "CREATE UNIQUE INDEX ON thing (m4) NULLS NOT DISTINCT": (None, None),
    "ALTER TABLE thing ADD EXCLUDE (m5 WITH =)": ("x", "x"),
    "ALTER TABLE thing ALTER m6 TYPE public.citext, ADD UNIQUE (m6)": ("x", "X"),
}
FORMS = (
    "ALTER TABLE thing ADD t tstzrange DEFAULT '[2026-01-31, 2026-02-01)', DROP CONSTRAINT thing_pkey",
    "ALTER TABLE thing ADD PRIMARY KEY (id, t)",
    "CREATE DOMAIN full_text AS text NOT NULL",
    "ALTER TABLE thing ADD d full_text DEFAULT ''",
    "ALTER TABLE thing ADD a text[] DEFAULT ARRAY['NULL', NULL]",
    "ALTER TABLE thing ADD j json, ADD number json",
)
SETTINGS = (
    "DateStyle = 'SQL, DMY'",
    "TimeZone = 'Asia/Tokyo'",
    "standard_conforming_strings = off",
    "array_nulls = off",
)
PARTS = (
    "DROP TABLE thing",
    "CREATE TABLE thing (id text, country text, slot smallint, PRIMARY KEY (id, slot)) PARTITION BY HASH (id)",
    *(f"CREATE TABLE t{each} PARTITION OF thing FOR VALUES WITH (MODULUS 9, REMAINDER {each})" for each in range(9)),
    *triggers("thing"),
)


@pytest.fixture
def servers(rig, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    monkeypatch.setattr(sample, "Base", Plain)
    servers = Servers(rig, tmp_path)
    yield servers
    servers.drop()


def run(servers, shard, *statements):
    """Run statements as they stand; return the rows of the last one."""
    with servers.connect(shard, autocommit=True) as connection:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(translated(statement))
        return cursor.fetchall() if cursor.description else []


def filled(servers, *statements):
    """Change the table on both shards, and give four slots rows; return the slots."""
    for shard in ("one", "two"):
        run(servers, shard, *statements)
    slots = [slot for (slot,) in run(servers, "one", "SELECT slot FROM apportion_slot ORDER BY slot LIMIT 4")]
    made = f"to_char(n, 'FM\"k\"000'), 'FR', ('{{{','.join(map(str, slots))}}}'::smallint[])[1 + n * 4 / {ROWS}]"
    run(servers, "one", f"INSERT INTO thing (id, country, slot) SELECT {made} FROM generate_series(0, {ROWS - 1}) n")
    return slots


def moved(servers, slots, *statements):
    """Move slots, run statements of a writer once rows have been copied; return the rows before and after."""
    chunks, rows = [], f"SELECT kept::text FROM thing kept WHERE slot = ANY ('{set(slots)}') ORDER BY 1"

    def change(event):
        chunks.extend([1] if event.step == "chunk" else [])
        if len(chunks) == 2 and event.step == "chunk":
            run(servers, "one", *statements)

    async def main():
        plan = await admin.plan(servers.url, SET, slots=slots, to="two")
        assert (await admin.apply(servers.url, SET, plan, observer=change)).is_whole
        before = run(servers, "one", rows)
        assert (await admin.clean(servers.url, SET, soak=timedelta(0))).is_whole
        return before

    before = asyncio.run(main())
    assert (ROWS, 0) == (len(before), len(run(servers, "one", rows)))
    assert len(chunks) > 2
    return before, run(servers, "two", rows)


def test_a_row_takes_the_unique_value_that_another_row_gave_up_while_it_was_copied(servers):
    columns = ", ".join(f"ADD m{number} text" for number in range(len(RULES)))
    slots = filled(servers, "CREATE EXTENSION citext", f"ALTER TABLE thing {columns}")
    fill = ", ".join(f"m{number} = id" for number in range(len(RULES)))
    run(servers, "one", f"UPDATE thing SET {fill}")
    for shard in ("one", "two"):
        run(servers, shard, *RULES)
    given = dict(enumerate(RULES.values()))
    sets = [
        ", ".join(
            f"m{number} = {'NULL' if each[place] is None else repr(each[place])}" for number, each in given.items()
        )
        for place in (0, 1)
    ]
    run(servers, "one", f"UPDATE thing SET {sets[0]} WHERE id = 'k000'")
    free = fill.replace("= id", "= 'free'")
    before, after = moved(
        servers, slots, f"UPDATE thing SET {free} WHERE id = 'k000'", f"UPDATE thing SET {sets[1]} WHERE id = 'k519'"
    )
    assert before == after


def test_writers_go_on_and_rows_come_over_whatever_their_types_and_the_settings_of_the_databases(servers):
    for shard in ("one", "two"):
        for setting in SETTINGS:
            run(servers, shard, f"ALTER DATABASE {servers.name(shard)} SET {setting}")
    slots = filled(servers, *FORMS)
    zero, number = r"""E'{"a": "\\u0000"}'""", "'1e999999'"
    odd = "id = id || chr(10) || chr(92) || chr(34) || chr(39)"
    before, after = moved(
        servers,
        slots,
        f"UPDATE thing SET j = {zero}, number = {number} WHERE id = 'k000'",
        f"UPDATE thing SET {odd}, a = ARRAY[NULL, 'NULL'] WHERE id = 'k001'",
    )
    assert before == after
    assert [(1,)] == run(servers, "two", "SELECT count(*) FROM thing WHERE j IS NOT NULL")


def test_a_table_in_parts_moves_and_keeps_no_trigger_of_the_move(servers):
    slots = filled(servers, *PARTS)
    before, after = moved(servers, slots, "UPDATE thing SET id = 'x' || id WHERE id < 'k009'")
    assert before == after
    assert [] == run(servers, "one", "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'apportion_log%'")


def test_a_row_that_the_target_refuses_under_the_fence_leaves_the_source_open(servers):
    slots = filled(servers)
    run(servers, "two", "ALTER TABLE thing ADD CHECK (country <> 'XX')")

    def change(event):
        if event.step == "verify":
            run(servers, "one", "UPDATE thing SET country = 'XX' WHERE id = 'k007'")

    async def main():
        plan = await admin.plan(servers.url, SET, slots=slots, to="two")
        with pytest.raises(InvalidInput, match="violates check constraint"):
            await admin.apply(servers.url, SET, plan, observer=change)
        states = run(servers, "one", f"SELECT DISTINCT state FROM apportion_slot WHERE slot = ANY ('{set(slots)}')")
        assert [("owner",)] == states
        run(servers, "one", "UPDATE thing SET country = 'YY' WHERE id = 'k007'")
        assert (await admin.apply(servers.url, SET, plan)).is_whole

    asyncio.run(main())
    assert [("YY",)] == run(servers, "two", "SELECT country FROM thing WHERE id = 'k007'")
