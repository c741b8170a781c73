"""Troubles of servers in the middle of a move: the mover says each, waits, and goes on by itself when it is over."""

import asyncio
from datetime import timedelta

import psycopg
import pytest

from apportion.shards import admin
from apportion.shards.postgres import server
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role
from tests.stores.rigs.postgres import SECRET, USER

pytestmark = pytest.mark.live

ROWS = "INSERT INTO place (slot, id, country, visits) SELECT slot, gen_random_uuid(), 'FR', 1"
KNOWN = psycopg.sql.quote(SECRET).replace("%", "%%")
ENDED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mover'"

# The statements that begin a trouble, and those that end it.
TROUBLES = {
    "another password": (["ALTER ROLE mover PASSWORD 'another'", ENDED], [f"ALTER ROLE mover PASSWORD {KNOWN}"]),
    "no login": (["ALTER ROLE mover NOLOGIN", ENDED], ["ALTER ROLE mover LOGIN"]),
    "no right to switch triggers off": (
        ["REVOKE SET ON PARAMETER session_replication_role FROM mover"],
        ["GRANT SET ON PARAMETER session_replication_role TO mover"],
    ),
    "no right to read": (["REVOKE SELECT ON place FROM mover"], ["GRANT SELECT ON place TO mover"]),
    "no right to change slots": (
        ["REVOKE UPDATE ON apportion.slot FROM mover"],
        ["GRANT UPDATE ON apportion.slot TO mover"],
    ),
}


def filled(files, count=5):
    """Give so many rows to each of four slots of shard one; return the slots."""
    slots = [slot for (slot,) in files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot LIMIT 4")]
    files.sql("one", f"{ROWS} FROM unnest(%s::smallint[]) slot, generate_series(1, %s)", (slots, count))
    return slots


def moved(files, slots, observer):
    """Move slots; return the rows before and after, and clean up."""
    rows = "SELECT * FROM place WHERE slot = ANY (%s) ORDER BY id"
    before = files.sql("one", rows, (slots,))

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two")
        async with asyncio.timeout(100):
            assert (await admin.apply(files.url, SET, plan, observer=observer)).is_whole
            assert (await admin.clean(files.url, SET, soak=timedelta(0))).is_whole

    asyncio.run(main())
    assert [] == files.sql("one", rows, (slots,))
    return before, files.sql("two", rows, (slots,))


@pytest.mark.parametrize(
    ("trouble", "shard", "step"),
    [
        ("another password", "two", "chunk"),
        ("another password", "one", "fence"),
        ("no login", "one", "chunk"),
        ("no right to switch triggers off", "two", "chunk"),
        ("no right to read", "one", "chunk"),
        ("no right to change slots", "two", "fence"),
    ],
)
def test_a_shard_that_denies_the_mover_for_a_moment_is_waited_for(mover, trouble, shard, step):
    mover.rig.sql("GRANT SET ON PARAMETER session_replication_role TO mover", database="postgres")
    slots, waits, begun = filled(mover), [], []
    begin, end = TROUBLES[trouble]

    def change(statements):
        for statement in statements:
            mover.sql(shard, statement)

    def hear(event):
        if event.step == step and not begun:
            begun.append(event.at)
            change(begin)
        if event.step == "waits":
            waits.append(event.why)
            if len(waits) == 5:
                change(end)

    before, after = moved(mover, slots, hear)
    assert before == after
    assert len(waits) >= 5
    assert SECRET not in f"{waits}"


@pytest.fixture
def files(make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    return make_set("postgresql")


def test_limits_that_a_role_has_for_its_transactions_cut_off_no_move(mover):
    limits = ("statement_timeout = '5ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '20ms'")
    mover.rig.sql("GRANT SET ON PARAMETER session_replication_role TO mover", database="postgres")
    slots = filled(mover, 2_000)
    for limit in limits:
        mover.rig.sql(f"ALTER ROLE mover SET {limit}", database="postgres")
    before, after = moved(mover, slots, lambda event: None)
    assert (8_000, before) == (len(after), after)


def test_an_idle_writer_is_named_with_its_age_and_is_left_alone_until_it_commits(files, monkeypatch):
    monkeypatch.setattr(server, "LOCK_WAIT_SECONDS", 0.4)
    slots, said = filled(files), []
    with files.connect("one", user=USER) as writer:
        writer.execute(f"{ROWS} FROM unnest(%s::smallint[]) slot", (slots[:1],))

        def hear(event):
            if event.step == "waits":
                said.append(event.why)
                if len(said) == 5:
                    writer.commit()

        _, after = moved(files, slots, hear)
        assert all(f"for 0.4 s: process {writer.info.backend_pid} of {USER}" in why for why in said)
    assert said[-1].rstrip(".").endswith(" s")
    assert len(said) == 5
    assert 21 == len(after)


def test_a_move_that_an_idle_writer_holds_up_rests_after_its_attempts_and_the_same_call_goes_on(files, monkeypatch):
    monkeypatch.setattr(server, "LOCK_WAIT_SECONDS", 0.2)
    slots, begun = filled(files), []
    plan = asyncio.run(admin.plan(files.url, SET, slots=slots, to="two"))
    with files.connect("one", user=USER) as writer:

        def write(event):
            if event.step == "verify" and not begun:
                begun.append(writer.execute(f"{ROWS} FROM unnest(%s::smallint[]) slot", (slots[:1],)))

        async def main():
            async with asyncio.timeout(60):
                return await admin.apply(files.url, SET, plan, attempts=2, observer=write)

        made = asyncio.run(main())
        assert ((), False) == (made.moves, made.is_whole)
        assert "rests after 2 attempts to switch: others held a lock of its tables for 0.2 s: process " in made.why
        assert f"process {writer.info.backend_pid} of {USER}" in made.why
        [move] = asyncio.run(admin.status(files.url, SET)).moves
        assert ("catching-up", "pause") == (move.state, move.wish)
        files.sql("one", f"{ROWS} FROM unnest(%s::smallint[]) slot", (slots[:2],))
        writer.commit()
    assert asyncio.run(admin.apply(files.url, SET, plan, attempts=2)).is_whole
    assert [(23,)] == files.sql("two", "SELECT count(*) FROM place WHERE slot = ANY (%s)", (slots,))


def test_a_prepared_transaction_that_holds_a_moving_slot_is_named_until_it_ends(files, monkeypatch):
    monkeypatch.setattr(server, "LOCK_WAIT_SECONDS", 0.2)
    slots, said, began = filled(files), [], []

    def hear(event):
        if event.step == "verify" and not began:
            began.append(1)
            with files.connect("one") as owner:
                owner.execute(f"{ROWS} FROM unnest(%s::smallint[]) slot", (slots[:1],))
                owner.execute("PREPARE TRANSACTION 'late'")
        if event.step == "waits" and not said:
            said.append(event.why)
            files.sql("one", "COMMIT PREPARED 'late'")

    _, after = moved(files, slots, hear)
    assert f"for 0.2 s: the prepared transaction late of {OWNER}" in said[0]
    assert 21 == len(after)
