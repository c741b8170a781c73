"""The fence of PostgreSQL in SQL: a mover and a writer never both believe that a slot is theirs.

Each planted bug is a patch of a shipped function; the race that finds it is the one that the shipped function passes.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import psycopg
import pytest

from apportion.shards.postgres import functions
from tests.shards.fence_races import (
    LEVELS,
    LIFE,
    SLOT,
    bare,
    disagreements,
    fence_slot,
    late_writer,
    old_snapshot,
    waits,
    with_fence,
)
from tests.stores.rigs.postgres import USER

pytestmark = pytest.mark.live
COMMITTED, REPEATABLE, SERIALIZABLE = LEVELS
READS = "is_waiting FROM apportion.slot WHERE slot = s;"
AWAITED = "number IS NOT NULL AND (life, number) <= (my_life, my_number)"
OLDER = "(my_number IS NULL OR number IS NULL OR (life, number) <= (my_life, my_number))"


@pytest.fixture(scope="module")
def files(make_set):
    return make_set("postgresql", shards=("one",))


@pytest.mark.parametrize(
    ("race", "level", "write"), [*product((late_writer, old_snapshot), LEVELS, (with_fence, bare))]
)
def test_a_writer_that_meets_a_fence_is_refused_at_each_isolation_level(files, race, level, write):
    refused = race(files, level, write)
    assert refused in {"AP001", "AP002"} if level == COMMITTED else refused in {"AP001", "AP002", "40001"}


def test_the_shard_answers_as_the_rule_of_slot_rows(files):
    assert [] == disagreements(files)


def lines(first, last):
    """Return the part of the shipped function from one text to another."""
    start = functions.ACCEPTS.index(first)
    return functions.ACCEPTS[start : functions.ACCEPTS.index(last, start) + len(last)]


LOCK = lines("    IF NOT pg_try", "END IF;")
LEVEL = lines("  IF current_setting('transaction_isolation')", "END IF;")
LOCKED = f"LATERAL (SELECT pg_advisory_xact_lock_shared({functions.LOCK_CLASS}, s)) AS locked"
SHIPPED = (functions.ACCEPTS, functions.FENCE)
PLANTED = {
    "no lock": ([(LOCK, "NULL;")], lambda f: late_writer(f, COMMITTED, with_fence)),
    "lock and read in one statement": (
        [(LOCK, "NULL;"), (READS, f"is_waiting FROM apportion.slot, {LOCKED} WHERE slot = s;")],
        lambda f: late_writer(f, COMMITTED, with_fence),
    ),
    "plain read in repeatable read": ([(LEVEL, "")], lambda f: old_snapshot(f, REPEATABLE, with_fence)),
    "plain read in serializable": ([(LEVEL, "")], lambda f: old_snapshot(f, SERIALIZABLE, with_fence)),
    "key share in repeatable read": (
        [("FOR SHARE", "FOR KEY SHARE")],
        lambda f: old_snapshot(f, REPEATABLE, with_fence),
    ),
    "bare path reads without FOR SHARE": (
        [("<> 'read committed' THEN", "<> 'read committed' AND my_number IS NOT NULL THEN")],
        lambda f: old_snapshot(f, REPEATABLE, bare),
    ),
    "number of the row ignored on owner": ([(f" AND {OLDER}", "")], disagreements),
    "incoming without a number accepts": ([(AWAITED, f"(number IS NULL OR {AWAITED})")], disagreements),
    "bare writer accepted on incoming": ([(AWAITED, f"(my_number IS NULL OR {AWAITED})")], disagreements),
}


@pytest.fixture
def plant(files):
    """Return a function that patches the shipped functions; they are shipped again after the test."""

    def planted(changes):
        for statement in SHIPPED:
            patched = statement
            for right, wrong in changes:
                assert right in patched
                patched = patched.replace(right, wrong)
            files.sql("one", patched)

    yield planted
    for each in SHIPPED:
        files.sql("one", each)


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_lets_a_writer_in_that_the_shipped_function_refuses(files, plant, bug):
    changes, found = PLANTED[bug]
    shipped = found(files)
    plant(changes)
    planted = found(files)
    assert "accepted" != shipped
    assert "accepted" == planted or ([] == shipped and [] != planted)


def test_a_number_that_is_absent_is_never_compared_as_a_part_of_a_row(files, plant):
    """`(1, NULL) <= (2, 7)` is true; the check of the table and the function both stand before it."""
    half = "UPDATE apportion.slot SET state = 'incoming', life = 1, number = NULL WHERE slot = %s"
    asked = "SELECT apportion.accepts(ARRAY[%s::smallint], 2, 7)"
    with pytest.raises(psycopg.errors.CheckViolation):
        files.sql("one", half, (SLOT,))
    with files.connect("one") as connection:
        connection.execute("ALTER TABLE apportion.slot DROP CONSTRAINT slot_check")
        connection.execute(half, (SLOT,))
        assert not connection.execute(asked, (SLOT,)).fetchone()[0]
        connection.execute(functions.ACCEPTS.replace("number IS NOT NULL AND ", ""))
        assert connection.execute(asked, (SLOT,)).fetchone()[0]
        connection.rollback()


def test_scenario_1_a_writer_that_pauses_after_its_fence_holds_the_mover_back_or_loses_its_connection(files):
    with files.connect("one", user=USER) as writer, files.connect("one") as mover, ThreadPoolExecutor(1) as pool:
        with_fence(writer)
        fencing = pool.submit(fence_slot, mover)
        waits(files, mover, fencing)
        assert not fencing.done()
        files.sql("one", "SELECT pg_terminate_backend(?)", (writer.info.backend_pid,))
        fencing.result(20)
        with pytest.raises(psycopg.OperationalError):
            bare(writer)
        mover.rollback()
    assert [] == files.sql("one", "SELECT id FROM place")


def test_scenario_2_a_snapshot_from_before_the_switch_is_of_no_use(files):
    for level, write in product((REPEATABLE, SERIALIZABLE), (with_fence, bare)):
        assert "40001" == old_snapshot(files, level, write)


def test_scenario_3_a_fence_that_an_idle_writer_holds_back_ends_in_time_and_names_the_writer(files):
    with files.connect("one", user=USER) as writer, files.connect("one") as mover:
        with_fence(writer)
        mover.execute("SET LOCAL lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            fence_slot(mover)
        mover.rollback()
        holders = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = ? AND objid = ?"
        assert [(writer.info.backend_pid,)] == files.sql("one", holders, (functions.LOCK_CLASS, SLOT))
        writer.rollback()


def test_a_writer_does_not_wait_for_a_stuck_mover_for_ever(files):
    with files.connect("one", user=USER) as writer, files.connect("one") as mover:
        fence_slot(mover)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            with_fence(writer)
        mover.rollback()
        writer.rollback()
        assert "0" == writer.execute("SHOW lock_timeout").fetchone()[0]


def test_a_wait_for_a_mover_ends_before_the_limit_of_a_role_for_its_statements(files):
    with files.connect("one", user=USER) as writer, files.connect("one") as mover:
        fence_slot(mover)
        writer.execute("SET statement_timeout = '400ms'")
        writer.commit()
        for write in (with_fence, bare):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                write(writer)
            writer.rollback()
        mover.rollback()
        assert "0" == writer.execute("SHOW lock_timeout").fetchone()[0]


def test_scenario_8_a_long_transaction_ends_before_the_switch_and_the_mover_sees_its_rows(files):
    with files.connect("one", user=USER) as writer, files.connect("one") as mover, ThreadPoolExecutor(1) as pool:
        with_fence(writer)
        fencing = pool.submit(fence_slot, mover)
        waits(files, mover, fencing)
        bare(writer)
        writer.commit()
        fencing.result(20)
        assert (2,) == mover.execute("SELECT count(*) FROM place WHERE slot = %s", (SLOT,)).fetchone()
        mover.rollback()
        writer.execute("DELETE FROM place")
        writer.commit()


def test_the_first_writer_turns_an_incoming_slot_and_an_aborted_one_turns_it_back(files):
    files.state("one", SLOT, "incoming", 7, LIFE)
    row = "SELECT state FROM apportion.slot WHERE slot = ?"
    try:
        with files.connect("one", user=USER) as writer:
            with_fence(writer)
            writer.rollback()
            assert [("incoming",)] == files.sql("one", row, (SLOT,))
            writer.execute("SELECT apportion.read(ARRAY[%s::smallint], %s, 7)", (SLOT, LIFE))
            writer.commit()
            assert [("incoming",)] == files.sql("one", row, (SLOT,))
            with_fence(writer)
            writer.execute("DELETE FROM place")
            writer.commit()
        assert [("owner",)] == files.sql("one", row, (SLOT,))
    finally:
        files.state("one", SLOT, "owner")


def test_a_fence_ends_with_its_transaction(files):
    with files.connect("one", user=USER) as writer:
        with_fence(writer)
        writer.rollback()
        assert "" == writer.execute("SELECT current_setting('apportion.slots')").fetchone()[0]
        assert [] == files.sql("one", "SELECT pid FROM pg_locks WHERE locktype = 'advisory'")


def test_the_role_of_the_application_reaches_the_functions_alone(files):
    for statement in (
        "UPDATE apportion.slot SET state = 'owner'",
        "DELETE FROM apportion.shard_meta",
        "INSERT INTO apportion.fences VALUES ('x', 'y', 'z')",
        "DROP TRIGGER apportion_insert ON place",
        "ALTER TABLE place DISABLE TRIGGER ALL",
    ):
        with files.connect("one", user=USER) as member, pytest.raises(psycopg.errors.InsufficientPrivilege):
            member.execute(statement)


def test_the_functions_trust_no_search_path(files):
    with files.connect("one", user=USER) as writer:
        writer.execute("CREATE TEMP TABLE slot (slot smallint, state text, life bigint, number bigint)")
        writer.execute("INSERT INTO pg_temp.slot VALUES (99, 'owner', NULL, NULL)")
        writer.execute("SET search_path = pg_temp, public")
        with pytest.raises(psycopg.Error, match="stale route"):
            writer.execute("SELECT apportion.fence('{99}', 1, 7)")
