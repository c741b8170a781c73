"""Wrong writes on PostgreSQL from programs that know of no shards: each is refused, and nothing is written.

The programs are psycopg and psql, under a role that owns nothing. Scenario 17: cron jobs and consoles write to a shard
that no longer has the rows.
"""

import os
import subprocess
from uuid import UUID

import psycopg
import pytest

from apportion.guards.sql import SqlGuard
from apportion.model.epoch import FencingToken
from apportion.shards.postgres.key_log import functions
from apportion.shards.postgres.schema import GUARD, mover_mark
from apportion.shards.postgres.tables import ServerTable
from tests.stores.rigs.postgres import SECRET, USER, programs

pytestmark = pytest.mark.live
HERE, OWNED = 5, 6
ROW, NEW, KEPT = UUID(int=1), UUID(int=2), UUID(int=3)
COLUMNS = "(id, country, visits, slot)"

WRITES = {
    "insert": f"INSERT INTO place {COLUMNS} VALUES ('{NEW}', 'FR', 1, {HERE})",
    "insert of an owned and a foreign row": f"INSERT INTO place {COLUMNS}"
    f" VALUES ('{NEW}', 'DE', 1, {OWNED}), ('{UUID(int=9)}', 'FR', 1, {HERE})",
    "insert from select": f"INSERT INTO place {COLUMNS} SELECT '{NEW}', country, visits, slot FROM place"
    f" WHERE id = '{ROW}'",
    "insert or nothing": f"INSERT INTO place {COLUMNS} VALUES ('{NEW}', 'FR', 1, {HERE}) ON CONFLICT DO NOTHING",
    "upsert": f"INSERT INTO place {COLUMNS} VALUES ('{ROW}', 'FR', 1, {HERE})"
    " ON CONFLICT (id) DO UPDATE SET visits = 9",
    "upsert of an owned slot": f"INSERT INTO place {COLUMNS} VALUES ('{ROW}', 'FR', 1, {OWNED})"
    " ON CONFLICT (id) DO UPDATE SET visits = 9",
    "insert of a child": f"INSERT INTO photo (id, place_id, slot) VALUES ('{NEW}', '{ROW}', {HERE})",
    "insert by a condition": f"WITH n AS (INSERT INTO place {COLUMNS} VALUES ('{NEW}', 'FR', 1, {HERE}) RETURNING 1)"
    " SELECT count(*) FROM n",
    "update": f"UPDATE place SET visits = 9 WHERE id = '{ROW}'",
    "update without change": f"UPDATE place SET visits = visits WHERE id = '{ROW}'",
    "update of all": "UPDATE place SET visits = 9",
    "update from": "UPDATE place SET visits = 9 FROM photo WHERE photo.place_id = place.id",
    "update with returning": f"UPDATE place SET visits = 9 WHERE id = '{ROW}' RETURNING visits",
    "update in a condition": "WITH n AS (UPDATE place SET visits = 9 RETURNING 1) SELECT count(*) FROM n",
    "update into an owned slot": f"UPDATE place SET slot = {OWNED} WHERE id = '{ROW}'",
    "update out of an owned slot": f"UPDATE place SET slot = {HERE} WHERE id = '{KEPT}'",
    "update through a view": "UPDATE seen SET visits = 9",
    "delete": f"DELETE FROM photo WHERE place_id = '{ROW}'",
    "delete of all": "DELETE FROM photo",
    "delete using": "DELETE FROM photo USING place WHERE photo.place_id = place.id",
    "delete in a condition": "WITH n AS (DELETE FROM photo RETURNING 1) SELECT count(*) FROM n",
    "merge that updates": f"MERGE INTO place USING (SELECT 1) AS o ON place.id = '{ROW}'"
    " WHEN MATCHED THEN UPDATE SET visits = 9",
    "merge that inserts": f"MERGE INTO place USING (SELECT 1) AS o ON place.id = '{NEW}'"
    f" WHEN NOT MATCHED THEN INSERT {COLUMNS} VALUES ('{NEW}', 'FR', 1, {HERE})",
    "merge that deletes": f"MERGE INTO photo USING (SELECT 1) AS o ON place_id = '{ROW}' WHEN MATCHED THEN DELETE",
    "a block of code": "DO 'BEGIN UPDATE place SET visits = 9; END'",
    "a caught error": "DO 'BEGIN DELETE FROM photo; EXCEPTION WHEN others THEN RAISE; END'",
    "a prepared statement": f"PREPARE p AS UPDATE place SET visits = $1 WHERE id = '{ROW}'; EXECUTE p(9)",
    "a cursor": "DECLARE c CURSOR FOR SELECT * FROM place FOR UPDATE; FETCH ALL FROM c;"
    f" UPDATE place SET visits = 9 WHERE id = '{ROW}'",
    "after a savepoint": "SAVEPOINT s; ROLLBACK TO s; UPDATE place SET visits = 9",
    "copy": f"COPY place {COLUMNS} FROM STDIN",
}
STATES = {
    "moved": ("moved", None, None),
    "fenced": ("fenced", None, None),
    "incoming": ("incoming", None, None),
    "incoming from a version on": ("incoming", 7, 1),
    "unknown": None,
}


@pytest.fixture(scope="module")
def files(make_set):
    made = make_set("postgresql", shards=("one",))
    made.sql("one", "CREATE VIEW seen AS SELECT * FROM place")
    made.sql("one", f"GRANT ALL ON seen TO {USER}")
    for row, country, slot in ((ROW, "FR", HERE), (KEPT, "DE", OWNED)):
        made.sql("one", f"INSERT INTO place {COLUMNS} VALUES (?, ?, 1, ?)", (row, country, slot))
    made.sql("one", "INSERT INTO photo (id, place_id, slot) VALUES (?, ?, ?)", (ROW, ROW, HERE))
    return made


@pytest.fixture
def set_row(files):
    """Return a function that gives the slot a row of a state; it is owned again after the test."""

    def given(row):
        files.sql("one", "DELETE FROM apportion_slot WHERE slot = ?", (HERE,))
        if row is not None:
            files.state("one", HERE, *row)

    yield given
    files.state("one", HERE, "owner")


def rows(files):
    return [files.sql("one", f"SELECT * FROM {table} ORDER BY id") for table in ("place", "photo")]


def write(connection, statement):
    if statement.startswith("COPY"):
        with connection.cursor().copy(statement) as copy:
            copy.write_row((NEW, "FR", 1, HERE))
    else:
        connection.execute(statement)


def written(files, name, *, before=""):
    """Return the SQLSTATE that refuses a write, or None."""
    with files.connect("one", user=USER) as connection:
        if before:
            connection.execute(before)
        try:
            write(connection, WRITES[name])
            connection.commit()
        except psycopg.Error as error:
            connection.rollback()
            return error.sqlstate
    return None


@pytest.mark.parametrize("state", STATES)
def test_a_write_of_a_slot_that_is_not_owned_is_refused(files, set_row, state):
    set_row(STATES[state])
    before = rows(files)
    refused = {name: written(files, name) for name in WRITES}
    assert {"AP001", "AP003"} >= {*refused.values()}
    assert {"update into an owned slot", "update out of an owned slot"} == {
        n for n, c in refused.items() if c == "AP003"
    }
    assert before == rows(files)


def test_a_write_of_an_owned_slot_that_the_transaction_did_not_fence_is_refused(files):
    before = rows(files)
    fence = f"SELECT apportion.fence(ARRAY[{OWNED}::smallint], 1, 7)"
    assert {"AP003"} == {written(files, name, before=fence) for name in WRITES}
    assert before == rows(files)


def test_there_are_at_least_forty_wrong_writes():
    assert 40 <= len(WRITES) * len(STATES)
    assert 30 <= len(WRITES)


def test_psql_is_refused_and_goes_on_where_the_slot_is_owned(files, set_row):
    set_row(("moved", None, None))
    before = rows(files)
    wrong = [each for each in WRITES.values() if not each.startswith(("COPY", "SAVEPOINT", "DECLARE", "PREPARE"))]
    said = psql(files, [*wrong, f"UPDATE place SET visits = 2 WHERE id = '{KEPT}'"])
    assert ["AP001"] * (len(wrong) - 2) == [line for line in said if line == "AP001"]
    assert ["AP003"] * 2 == [line for line in said if line == "AP003"]
    set_row(("owner", None, None))
    assert [(2,)] == files.sql("one", "SELECT visits FROM place WHERE id = ?", (KEPT,))
    files.sql("one", "UPDATE place SET visits = 1 WHERE id = ?", (KEPT,))
    assert before == rows(files)


def psql(files, statements):
    """Run statements by psql; return the last words of its errors."""
    host, port = files.rig.address()
    name = files.shards["one"].url.rpartition("/")[2]
    target = ("-h", host, "-p", str(port), "-U", USER, "-d", name, "-v", "VERBOSITY=sqlstate")
    program = [programs() / "psql", "-X", "-q", *target]
    script = ";\n".join(statements) + ";\n"
    done = subprocess.run(
        program, input=script, text=True, capture_output=True, check=False, env=os.environ | {"PGPASSWORD": SECRET}
    )
    return [line.split()[-1] for line in done.stderr.splitlines() if "ERROR" in line]


def test_no_trigger_of_ours_runs_a_cast_of_another_role(files):
    table = ServerTable(
        name="place", key=("id",), key_names=("id",), key_forms=(), columns=(), uniques=frozenset(), rivalries=()
    )
    for statement in (f"CREATE SCHEMA other AUTHORIZATION {USER}", *functions("apportion.log_1", "log", table)):
        files.sql("one", statement.replace("%", "%%"))
    made = (
        "CREATE TYPE other.own AS (n int)",
        "CREATE FUNCTION other.cast(other.own) RETURNS smallint LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION ''run as %'', current_user; END'",
        "CREATE CAST (other.own AS smallint) WITH FUNCTION other.cast AS ASSIGNMENT",
        "CREATE TABLE other.thing (slot other.own)",
        "CREATE TRIGGER t BEFORE INSERT ON other.thing FOR EACH ROW EXECUTE FUNCTION apportion.guard()",
    )
    try:
        with files.connect("one", user=USER, autocommit=True) as connection:
            for statement in made:
                connection.execute(statement)
            with pytest.raises(psycopg.Error, match="the slot of a row is a smallint"):
                connection.execute("INSERT INTO other.thing VALUES (ROW(1))")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE TRIGGER u AFTER INSERT ON other.thing EXECUTE FUNCTION apportion.log_1()")
    finally:
        files.sql("one", "DROP SCHEMA other CASCADE")
        files.sql("one", "DROP FUNCTION apportion.log_1()")


@pytest.mark.parametrize("command", ["TRUNCATE place CASCADE", "TRUNCATE photo"])
def test_truncate_is_refused_even_to_the_owner(files, command):
    before = rows(files)
    with pytest.raises(psycopg.Error, match="TRUNCATE is refused"):
        files.sql("one", command)
    assert before == rows(files)


def test_a_row_without_a_slot_is_refused_before_and_after_a_fence_in_the_same_connection(files):
    null = f"INSERT INTO place {COLUMNS} VALUES ('{NEW}', 'FR', 1, NULL)"
    with files.connect("one", user=USER, autocommit=True) as connection:
        for _ in range(2):
            with pytest.raises(psycopg.Error, match="a row needs a slot"):
                connection.execute(null)
            connection.execute(f"SELECT apportion.fence(ARRAY[{OWNED}::smallint], 1, 7)")


def test_a_bare_writer_of_owned_slots_asks_once_for_each_and_holds_their_locks(files):
    with files.connect("one", user=USER) as connection:
        connection.execute("UPDATE place SET visits = visits + 1")
        held = "SELECT objid::int FROM pg_locks WHERE locktype = 'advisory' ORDER BY 1"
        assert [HERE, OWNED] == [row[0] for row in files.sql("one", held)]
        assert (f",{HERE},{OWNED}",) == connection.execute("SELECT current_setting('apportion.bare')").fetchone()
        connection.rollback()


def test_a_bare_writer_of_many_slots_keeps_a_short_list_and_holds_every_lock(files):
    files.sql("one", "INSERT INTO apportion_slot (slot, state) SELECT n, 'owner' FROM generate_series(100, 600) AS n")
    many = f"INSERT INTO place {COLUMNS} SELECT gen_random_uuid(), 'x', 1, n FROM generate_series(100, 600) AS n"
    try:
        with files.connect("one", user=USER) as connection:
            connection.execute(many)
            connection.execute("UPDATE place SET visits = 2 WHERE country = 'x'")
            assert connection.execute("SELECT length(current_setting('apportion.bare'))").fetchone()[0] < 1_100
            assert [(501,)] == files.sql("one", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
            connection.rollback()
        files.state("one", 600, "moved")
        with files.connect("one", user=USER) as connection, pytest.raises(psycopg.Error, match="stale route"):
            connection.execute(many)
    finally:
        files.sql("one", "DELETE FROM apportion_slot WHERE slot >= 100")


def test_a_mover_writes_to_any_slot_under_the_newest_token_alone(files, set_row):
    set_row(("moved", None, None))
    old, new = (
        FencingToken(resource="shards/world/m1", holder=h, incarnation=1, epoch=e) for h, e in (("a", 7), ("b", 8))
    )
    change = f"UPDATE place SET visits = visits, slot = slot WHERE id = '{ROW}'"
    with files.connect("one") as mover:
        GUARD.check(mover, old)
        mover.execute("SELECT set_config('apportion.mover', %s, true)", (mover_mark(old),))
        assert 1 == mover.execute(change).rowcount
        mover.commit()
        GUARD.check(mover, new)
        for mark in (mover_mark(old), "x"):
            marked = f"WITH m AS MATERIALIZED (SELECT set_config('apportion.mover', '{mark}', true)) {change}"
            with pytest.raises(psycopg.Error, match="not the newest"), mover.transaction():
                mover.execute(f"{marked} AND EXISTS (SELECT FROM m)")
        mover.execute("SELECT set_config('apportion.mover', %s, true)", (mover_mark(new),))
        mover.execute(f"UPDATE place SET slot = {OWNED + 1} WHERE id = '{KEPT}'")
        mover.rollback()
    assert SqlGuard("apportion.fences").table == GUARD.table


def test_rows_that_native_replication_applies_fire_no_trigger(files, set_row):
    set_row(("moved", None, None))
    with files.connect("one") as connection:
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(f"UPDATE place SET visits = 9 WHERE id = '{ROW}'")
        connection.rollback()
