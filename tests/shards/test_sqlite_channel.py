"""A move between two SQLite files keeps each value, its type, and each change of a row, in tables of many shapes."""

import asyncio
import sqlite3
from dataclasses import replace

import pytest

from apportion.errors import Unequal
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.sqlite.comparison import RowComparison
from apportion.shards.sqlite.log import LogParts
from apportion.tables.layout import Version
from tests.shards.sqlite_pair import GROUP, ODD, TOKEN, FilePair, abort, copied, opened, prepared

ODD_SQL = ODD.replace('"', '""')
VALUES = ("1", "1.0", "'1'", "x'31'", "NULL", "9223372036854775807", "1e300", "''", "'Zoë' || char(0) || 'x'", "x''")


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_group_moves_and_nothing_stays_behind(tmp_path, mode):
    pair = FilePair(tmp_path, mode=mode)

    async def main():
        async with opened(pair) as sites:
            source, target = await sites.shard("one"), await sites.shard("two")
            channel = await copied(sites)
            pair.sql("one", "UPDATE place SET visits = -1 WHERE slot = 3", "DELETE FROM photo WHERE slot = 4")
            assert 0 < (await channel.state(1)).lag
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)
            await source.change(GROUP, ROW_CHANGES["fence"], TOKEN)
            state = await channel.state(1)
            assert (True, True) == (state.is_drained, state.is_verified)
            number = Version(incarnation=7, number=2)
            await target.change(GROUP, replace(ROW_CHANGES["announce"], number=number), TOKEN)
            assert pair.rows("one") == pair.rows("two")
            await source.change(GROUP, ROW_CHANGES["settle-source"], TOKEN)
            await target.change(GROUP, ROW_CHANGES["settle-target"], TOKEN)
            await channel.uncapture(TOKEN)
            while await source.clean(GROUP, TOKEN):
                pass
            assert [[], [], []] == pair.rows("one")
            assert ([], []) == (await source.left_behind(GROUP.move), await target.left_behind(GROUP.move))

    asyncio.run(main())


def moved(pair, *statements, copies_first=True):
    """Move the group while statements change the source, to the end of the log; return the rows of both shards."""

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites) if copies_first else await prepared(sites)
            for statement in statements:
                pair.sql("one", *statement.split(";"))
                await channel.apply(TOKEN)
            while not (await channel.state(1)).is_copied:
                await channel.copy(TOKEN)
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)
            assert (await channel.state(1)).is_verified

    asyncio.run(main())
    return pair.rows("one"), pair.rows("two")


@pytest.mark.parametrize("copies_first", [True, False])
def test_every_value_keeps_its_type(tmp_path, copies_first):
    pair = FilePair(tmp_path)
    inserts = [
        f"INSERT INTO place VALUES (3, 'v{number}', {value}, {value}, {value})" for number, value in enumerate(VALUES)
    ]
    source, target = moved(pair, *inserts, copies_first=copies_first)
    assert source == target


@pytest.mark.parametrize(
    ("kept", "planted"), [("1", "1.0"), ("1", "'1'"), ("'1'", "x'31'"), ("NULL", "0"), ("'a'", "'A'")]
)
def test_a_value_of_another_type_is_found(tmp_path, kept, planted):
    pair = FilePair(tmp_path, rows=0)
    pair.sql("one", f"INSERT INTO place VALUES (3, 'row 7', 'FR', 1, {kept})")

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            pair.sql("two", f"UPDATE place SET note = {planted}", mask=True)
            with pytest.raises(Unequal, match="'row 7' of slot 3"):
                await channel.verify(1, TOKEN)
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")


def test_a_row_of_another_slot_is_found(tmp_path):
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            pair.sql("two", "DROP TRIGGER apportion_place_slot", "UPDATE place SET slot = 5 WHERE id = 'p3'", mask=True)
            with pytest.raises(Unequal, match="'p3' of slot 3"):
                await channel.verify(1, TOKEN)

    asyncio.run(main())


def test_names_with_quotes_four_key_columns_and_a_collation(tmp_path):
    pair = FilePair(tmp_path, rows=0)
    insert = f"""INSERT INTO "{ODD_SQL}" VALUES"""
    pair.sql("one", *(f"{insert} ({each}, {each}.5, x'0{each}', 'Key', 3, 'n{each}', 'l')" for each in range(9)))
    source, target = moved(
        pair,
        f"""UPDATE "{ODD_SQL}" SET k4 = 'KEY' WHERE k2 = 3.5""",
        f"""UPDATE "{ODD_SQL}" SET k2 = 'text', label = NULL WHERE k2 = 4.5""",
        f"""DELETE FROM "{ODD_SQL}" WHERE k2 = 5.5""",
    )
    assert source == target
    assert 8 == len(target[2])


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO place VALUES (3, 'p3', 'DE', 1, 2)",
        "INSERT OR REPLACE INTO place VALUES (5, 'p3', 'DE', 1, 2)",
        "REPLACE INTO place SELECT 5, id, country, visits, note FROM place WHERE slot = 3",
        "UPDATE OR REPLACE place SET id = 'p19' WHERE id = 'p5'",
        "UPDATE place SET id = 'renamed ' || id WHERE slot = 3",
        "INSERT INTO place VALUES (3, 'p3', 'DE', 1, 2) ON CONFLICT (id) DO UPDATE SET country = excluded.country",
    ],
)
def test_a_row_that_is_replaced_or_gets_another_key_is_logged(tmp_path, statement):
    """SQLite runs no trigger for a row that a statement replaces."""
    pair = FilePair(tmp_path)
    pair.sql("one", "DELETE FROM photo")
    source, target = moved(pair, statement)
    assert source == target


REPLACING = [
    "INSERT OR REPLACE INTO place VALUES (20, 'p3', 'DE', 1, 2)",
    "REPLACE INTO place SELECT 20, 'p3', 'DE', 1, 2",
    "UPDATE OR REPLACE place SET id = 'p3' WHERE id = 'own'",
    "INSERT OR REPLACE INTO place VALUES (20, 'new', 'unique', 1, 2)",
]


@pytest.mark.parametrize("statement", REPLACING)
def test_a_copied_row_is_not_replaced_on_the_target_by_a_row_of_another_slot(tmp_path, statement):
    """SQLite runs no trigger for a row that a statement replaces, so the row would be lost after the comparison."""
    pair = FilePair(tmp_path, rows=20)
    pair.sql("two", "INSERT INTO place VALUES (20, 'own', 'FR', 1, 2)")
    pair.sql("one", "UPDATE place SET country = 'unique' WHERE id = 'p3'")
    for shard in pair.paths:
        pair.sql(shard, "CREATE UNIQUE INDEX once ON place (country) WHERE country <> 'FR'")

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            await channel.verify(1, TOKEN)
            with pytest.raises(sqlite3.IntegrityError, match="its slot is moving"):
                pair.sql("two", statement)
            pair.sql("two", "INSERT OR REPLACE INTO place VALUES (20, 'own', 'IT', 1, 2)")
            assert pair.rows("one") == pair.rows("two")
            assert [] == await abort(sites)
            pair.sql("two", statement)

    asyncio.run(main())


def test_a_row_of_a_fenced_slot_is_not_replaced_by_a_row_of_another_slot(tmp_path):
    """Its replacement would be logged too late for the switch, and the row would live on."""
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites:
            await copied(sites)
            await (await sites.shard("one")).change(GROUP, ROW_CHANGES["fence"], TOKEN)
            for statement in ("INSERT OR REPLACE INTO place VALUES (5, 'p3', 'DE', 1, 2)",):
                with pytest.raises(sqlite3.IntegrityError, match="its slot is moving"):
                    pair.sql("one", statement)

    asyncio.run(main())


def test_a_row_that_is_replaced_by_another_unique_value_is_logged(tmp_path):
    pair = FilePair(tmp_path, rows=0)
    insert = f"""INSERT OR REPLACE INTO "{ODD_SQL}" VALUES"""
    pair.sql("one", f"{insert} (1, 1, x'', 'a', 3, 'same', 'l')", f"{insert} (2, 1, x'', 'a', 3, 'other', 'l')")
    source, target = moved(
        pair,
        f"""{insert} (3, 1, x'', 'a', 3, 'same', 'm'); UPDATE "{ODD_SQL}" SET name = 'new' WHERE name = 'same'""",
        f"""UPDATE OR REPLACE "{ODD_SQL}" SET name = 'other' WHERE name = 'new';
            UPDATE "{ODD_SQL}" SET name = 'last' WHERE name = 'other'""",
    )
    assert source == target
    assert 1 == len(target[2])


def test_unique_values_that_change_places_arrive_in_any_order(tmp_path):
    pair = FilePair(tmp_path, rows=0)
    insert = f"""INSERT INTO "{ODD_SQL}" VALUES"""
    pair.sql("one", *(f"{insert} ({each}, 1, x'', 'a', 3, 'n{each}', 'l')" for each in range(4)))
    turn = [
        f"""UPDATE "{ODD_SQL}" SET name = 'none'  WHERE name = 'n0'""",
        *(f"""UPDATE "{ODD_SQL}" SET name = 'n{each}' WHERE name = 'n{each + 1}'""" for each in range(3)),
        f"""UPDATE "{ODD_SQL}" SET name = 'n3' WHERE name = 'none'""",
    ]

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            pair.sql("one", *turn)
            channel._log._portion.rows = 1
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")


@pytest.mark.parametrize(
    "statement", ["DELETE FROM place WHERE id = 'p3'", "DELETE FROM place WHERE slot = 3", "DELETE FROM place"]
)
def test_a_cascade_acts_once(tmp_path, statement):
    """Children are deleted, or lose their parent, on the source; the target gets each of these rows by the log."""
    pair = FilePair(tmp_path)
    pair.sql("one", "UPDATE photo SET place_id = NULL, other_id = place_id WHERE a % 32 >= 16")
    source, target = moved(pair, statement)
    assert source == target
    assert pair.rows("one", range(16)) != pair.rows("two", range(16))


def test_a_key_that_the_target_has_in_another_slot_is_refused(tmp_path):
    pair = FilePair(tmp_path)
    pair.sql("two", "INSERT INTO place VALUES (20, 'p3', 'DE', 1, 2)")
    own = pair.rows("two", [20])

    async def main():
        async with opened(pair) as sites:
            with pytest.raises(Unequal, match="rows of other slots with the same keys on the target: 'p3' of slot 20"):
                await copied(sites)
            assert own == pair.rows("two", [20])
            assert [[], [], []] == pair.rows("two")
            assert [] == await abort(sites)

    asyncio.run(main())
    assert own == pair.rows("two", [20])


def test_a_row_without_a_key_is_refused(tmp_path):
    pair = FilePair(tmp_path, rows=0)
    pair.sql("one", f"""INSERT INTO "{ODD_SQL}" VALUES (1, NULL, x'', 'a', 3, 'n', 'l')""")

    async def main():
        async with opened(pair) as sites:
            with pytest.raises(Unequal, match="NULL in their primary key: one of slot 3"):
                await copied(sites)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("window", [10, 60, 5_000])
def test_groups_of_many_slots_are_copied_in_chunks_of_windows(tmp_path, window):
    """A slot has 25 rows: a window is a part of it, two whole ones, or all."""
    pair = FilePair(tmp_path, rows=400)
    group = MoveGroup(move="m", source="one", target="two", slots=tuple(range(16)))

    async def main():
        async with opened(pair) as sites:
            channel = await prepared(sites, group)
            sizes = []
            while not (state := await channel.state(1)).is_copied:
                channel._chunks._portion.rows, channel._chunks._reads.rows = 7, window
                await channel.copy(TOKEN)
                sizes.append((await channel.state(1)).copied - state.copied)
                if not len(sizes) % 11:  # another mover goes on: it has read no window yet
                    await sites.close()
                    channel = await sites.channel(group)
            assert (7, 800) == (max(sizes), sum(sizes))
            while not (await channel.state(1)).is_verified:
                channel._pieces.rows = 7
                await channel.verify(1, TOKEN)

    asyncio.run(main())
    assert pair.rows("one", range(16)) == pair.rows("two", range(16))


@pytest.mark.parametrize("opens_anew", [True, False])
def test_rows_of_a_window_that_were_read_before_the_log_was_applied_are_read_again(tmp_path, opens_anew):
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites, opened(pair) as others:
            channel = await prepared(sites)
            other = await others.channel(GROUP) if opens_anew else channel
            for turn in range(30):
                channel._chunks._portion.rows = 1
                await channel.copy(TOKEN)
                pair.sql(
                    "one", f"UPDATE place SET visits = {1_000 + turn}", "DELETE FROM photo WHERE a = 83 AND slot = 3"
                )
                await other.apply(TOKEN)
            while not (await channel.state(1)).is_copied:
                await channel.copy(TOKEN)
            assert (await channel.state(1)).is_drained

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")


def test_a_part_of_the_log_that_was_written_and_not_forgotten_is_applied_again(tmp_path, monkeypatch):
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            pair.sql("one", "UPDATE place SET visits = -1", "DELETE FROM photo WHERE slot = 3")
            with monkeypatch.context() as patched:
                patched.setattr(LogParts, "forget", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    await channel.apply(TOKEN)
            assert pair.rows("one") == pair.rows("two")
        async with opened(pair) as sites:
            channel = await sites.channel(GROUP)
            assert 0 < (await channel.state(1)).lag
            pair.sql("one", "INSERT INTO place VALUES (3, 'p3 again', 'FR', 1, 2)")
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")


def test_a_part_of_the_log_that_is_deleted_late_takes_no_later_part_along(tmp_path):
    """A call that was cancelled, because writers have waited too long, may still wait for the lock of the source."""
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            pair.sql("one", "UPDATE place SET visits = -1 WHERE slot = 3")
            await channel._target.read(channel._log.read)
            await channel._target.write(GROUP, TOKEN, channel._log.write)
            late = channel._log.forget
            pair.sql("one", "UPDATE place SET visits = -2 WHERE slot = 4")
            await channel._target.read(channel._log.read)
            await channel._source.write(GROUP, TOKEN, late)
            await channel.apply(TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")


def test_a_cancelled_call_leaves_the_channel_usable(tmp_path):
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites:
            channel = await prepared(sites)
            while not (await channel.state(1)).is_copied:
                copy = asyncio.create_task(channel.copy(TOKEN))
                await asyncio.sleep(0.001)
                copy.cancel()
                await asyncio.gather(copy, return_exceptions=True)
                await channel.copy(TOKEN)
            await channel.verify(1, TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")


def test_a_comparison_of_nothing_is_an_error(tmp_path):
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            channel._group = replace(GROUP, slots=(14,))  # a filter that is wrong, and finds no row
            pair.sql("one", "DELETE FROM photo WHERE slot = 14", "DELETE FROM place WHERE slot = 14")
            pair.sql("one", "INSERT INTO apportion_capture SELECT 14, move FROM apportion_capture LIMIT 1")
            with pytest.raises(Unequal, match="rows on the source that were not compared"):
                await channel.verify(1, TOKEN)

    asyncio.run(main())


FIRST = f"""INSERT INTO "{ODD_SQL}" VALUES (1, 2, x'33', 'first', 3, 'name', 'label')"""  # the first table


def test_the_first_row_of_a_group_may_come_at_the_end_of_a_comparison(tmp_path, monkeypatch):
    pair, judge = FilePair(tmp_path, rows=0), RowComparison.has_missed_all

    def late(comparison, connection):
        pair.sql("one", FIRST)
        return judge(comparison, connection)

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            with monkeypatch.context() as patch:
                patch.setattr(RowComparison, "has_missed_all", late)
                await channel.verify(1, TOKEN)
            assert (True, 1) == ((await channel.state(1)).is_verified, (await channel.state(1)).lag)
            await channel.apply(TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two") != [[], [], []]


def test_the_first_row_of_a_group_may_come_and_be_applied_during_a_comparison(tmp_path, monkeypatch):
    pair, calls = FilePair(tmp_path, rows=0), iter([True, False])

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            channel._pieces.rows = 2  # one piece of the comparison ends before the last slot
            with monkeypatch.context() as patch:
                patch.setattr(RowComparison, "goes_on", lambda _: next(calls))
                await channel.verify(1, TOKEN)
            assert not (await channel.state(1)).is_verified
            pair.sql("one", FIRST)
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)
            assert not (await channel.state(1)).is_verified
            await channel.verify(1, TOKEN)
            assert (await channel.state(1)).is_verified

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two") != [[], [], []]


def test_a_write_to_the_source_waits_for_no_lock_that_the_target_has(tmp_path):
    """The copy reads the source and writes the target in two transactions."""
    pair = FilePair(tmp_path, mode="delete")
    locked = []

    async def main():
        async with opened(pair) as sites:
            channel = await prepared(sites)
            write = channel._chunks.write

            def watched(connection):
                write(connection)
                with sqlite3.connect(pair.paths["one"], timeout=0) as other:
                    locked.append(other.execute("UPDATE place SET visits = visits + 1").rowcount)

            channel._chunks.write = watched
            while not (await channel.state(1)).is_copied:
                await channel.copy(TOKEN)

    asyncio.run(main())
    assert {100} == {*locked}


def test_a_trigger_of_the_application_that_writes_a_row_twice_is_found(tmp_path):
    """It runs on the source when a writer writes, and on the target when the row arrives."""
    pair = FilePair(tmp_path, rows=0)
    made = "INSERT INTO place (slot, id, country) VALUES (NEW.slot, NEW.id || ' of ' || hex(randomblob(4)), 'made')"
    for shard in pair.paths:
        pair.sql(shard, f"CREATE TRIGGER ours AFTER INSERT ON place WHEN NEW.country = 'FR' BEGIN {made}; END")
    pair.sql("one", "INSERT INTO place (slot, id, country) VALUES (3, 'row', 'FR')")

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            with pytest.raises(Unequal, match="'row of "):
                await channel.verify(1, TOKEN)

    asyncio.run(main())


def test_the_log_of_a_move_that_a_recovery_has_split_ends_with_a_part_of_it(tmp_path):
    part = replace(GROUP, slots=GROUP.slots[:1])

    async def main():
        async with opened(FilePair(tmp_path)) as sites:
            await prepared(sites)
            channel = await sites.channel(part)
            assert (await channel.state(1)).is_captured
            await channel.uncapture(TOKEN)
            assert not (await channel.state(1)).is_captured

    asyncio.run(main())
