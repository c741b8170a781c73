"""The guard of a database on SQLite: verdicts, transactions, and connections that cannot be guarded."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy
from hypothesis import given
from sqlalchemy.orm import Session

from apportion import guards
from apportion.errors import Fenced, InvalidInput, UnknownOption
from apportion.guards import SqlGuard
from tests.guards.tokens import BAD_TOKENS, SEQUENCES, expected_of, token, verdicts_of

GUARD = SqlGuard()
IN_AUTOCOMMIT = "expected one in a transaction"


@pytest.fixture
def path(tmp_path):
    """A file with the guard's table and a log of what was written."""
    place = tmp_path / "work.db"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        GUARD.create(connection)
        connection.execute("CREATE TABLE log (epoch INTEGER)")
    return place


def opened(path, **options):
    return closing(sqlite3.connect(path, timeout=0, **options))


def write(connection, epoch, holder="ann"):
    GUARD.check(connection, token(epoch, holder))
    connection.execute("INSERT INTO log VALUES (?)", [epoch])


def refused():
    """Within: the first statements may write, the last is refused."""
    return pytest.raises(Fenced)


def logged(path):
    with opened(path) as connection:
        return [epoch for (epoch,) in connection.execute("SELECT epoch FROM log ORDER BY rowid")]


@given(SEQUENCES)
def test_verdicts_on_sqlite3_are_those_of_the_rule(tokens):
    with opened(":memory:") as connection:
        GUARD.create(connection)
        assert expected_of(tokens) == verdicts_of(lambda each: GUARD.check(connection, each), tokens)


ENGINE = sqlalchemy.create_engine("sqlite://")


@given(SEQUENCES)
def test_verdicts_on_sqlalchemy_are_those_of_the_rule(tokens):
    with ENGINE.connect() as connection:
        GUARD.create(connection)
        assert expected_of(tokens) == verdicts_of(lambda each: GUARD.check(connection, each), tokens)
        connection.rollback()


def test_a_refused_write_leaves_nothing_and_the_accepted_one_stays(path):
    with opened(path) as connection:
        with connection:
            write(connection, 8)
        with refused(), connection:
            connection.execute("INSERT INTO log VALUES (0)")
            write(connection, 7)
    assert [8] == logged(path)


def test_a_rollback_takes_the_check_back_with_the_write(path):
    with opened(path) as connection:
        write(connection, 8)
        connection.rollback()
        with connection:
            write(connection, 7)
    assert [7] == logged(path)


def test_a_refusal_leaves_the_transaction_usable_for_another_resource(path):
    with opened(path) as connection, connection:
        GUARD.check(connection, token(8))
        with pytest.raises(Fenced):
            GUARD.check(connection, token(7))
        assert connection.in_transaction
        GUARD.check(connection, token(1, resource="mailers/18"))
        connection.execute("INSERT INTO log VALUES (1)")
    assert [1] == logged(path)


def test_the_check_is_in_the_transaction_of_the_write(path):
    with opened(path) as first, opened(path) as second:
        write(first, 7)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            write(second, 8)
        first.commit()
        write(second, 8)
        second.commit()
        with pytest.raises(Fenced):
            write(first, 7)
    assert [7, 8] == logged(path)


def test_a_transaction_that_read_before_another_wrote_is_not_let_in(path):
    with opened(path, isolation_level=None) as late, opened(path) as other:
        late.execute("BEGIN DEFERRED")
        assert [(0,)] == late.execute("SELECT count(*) FROM log").fetchall()
        with other:
            write(other, 8)
        for epoch in (7, 9):  # a snapshot cannot be written to, whatever the token
            with pytest.raises(sqlite3.OperationalError) as caught:
                write(late, epoch)
            assert "SQLITE_BUSY_SNAPSHOT" == caught.value.sqlite_errorname
        late.execute("ROLLBACK")
        late.execute("BEGIN IMMEDIATE")
        with pytest.raises(Fenced):
            write(late, 7)
        late.execute("ROLLBACK")
    assert [8] == logged(path)


def test_autocommit_of_sqlite3_is_refused_before_anything_is_written(path):
    with opened(path, isolation_level=None) as connection:
        with pytest.raises(InvalidInput, match=IN_AUTOCOMMIT):
            GUARD.check(connection, token(8))
        assert 0 == connection.execute("SELECT count(*) FROM apportion_fences").fetchone()[0]
        connection.execute("BEGIN")
        write(connection, 8)
        connection.execute("COMMIT")
    assert [8] == logged(path)


class Connection312(sqlite3.Connection):
    """What a connection of Python 3.12 made with `autocommit=True` says of itself."""

    autocommit = True


def test_autocommit_of_newer_pythons_is_refused(path):
    with opened(path, factory=Connection312) as connection:
        assert "" == connection.isolation_level
        with pytest.raises(InvalidInput, match=IN_AUTOCOMMIT):
            GUARD.check(connection, token(8))


def engine_of(path, **options):
    return sqlalchemy.create_engine(f"sqlite:///{path}", **options)


def test_sqlalchemy_writes_in_the_transaction_of_its_check(path):
    engine = engine_of(path)
    for epoch in (7, 8):
        with engine.begin() as connection:
            GUARD.check(connection, token(epoch))
            connection.execute(sqlalchemy.text("INSERT INTO log VALUES (:epoch)"), {"epoch": epoch})
    with refused(), engine.begin() as connection:
        connection.execute(sqlalchemy.text("INSERT INTO log VALUES (0)"))
        GUARD.check(connection, token(7))
    with Session(engine) as session, session.begin():
        GUARD.check(session.connection(), token(9))
    with engine.connect() as connection:  # not committed, so not there
        GUARD.check(connection, token(10))
    with engine.begin() as connection:
        GUARD.check(connection, token(9))
    engine.dispose()
    assert [7, 8] == logged(path)


@pytest.mark.parametrize("where", ["engine", "connection"])
def test_autocommit_of_sqlalchemy_is_refused(path, where):
    options = {"isolation_level": "AUTOCOMMIT"}
    engine = engine_of(path, **(options if where == "engine" else {}))
    with engine.connect().execution_options(**(options if where == "connection" else {})) as connection:
        with pytest.raises(InvalidInput, match=IN_AUTOCOMMIT):
            GUARD.check(connection, token(8))
        assert 0 == connection.scalar(sqlalchemy.text("SELECT count(*) FROM apportion_fences"))
    engine.dispose()


def test_an_engine_that_begins_by_itself_is_guarded(path):
    """SQLAlchemy's recipe for SQLite: the driver begins nothing, an event of the engine does."""
    engine = engine_of(path)

    @sqlalchemy.event.listens_for(engine, "connect")
    def leave_it(connection, record):
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def begin(connection):
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as connection:
        GUARD.check(connection, token(8))
    with engine.connect() as connection, pytest.raises(Fenced):
        GUARD.check(connection, token(7))
    engine.dispose()


class OwnRow:
    """Rows as a user wants them."""

    def __init__(self, cursor, values):
        self.values = values


def test_it_asks_for_rows_of_its_own(path):
    with opened(path) as connection:
        connection.row_factory, connection.text_factory = OwnRow, bytes
        GUARD.check(connection, token(8, "bob"))
        with pytest.raises(Fenced) as caught:
            GUARD.check(connection, token(7))
        assert (token(8), "bob") == (caught.value.newer, caught.value.newer.holder)
        assert isinstance(connection.execute("SELECT 1").fetchone(), OwnRow)


@pytest.mark.parametrize("table", ["fences", "main.Fences", "select", "_1"])
def test_a_table_of_any_plain_name_is_made_once_and_used(table):
    guard = SqlGuard(table)
    with opened(":memory:") as connection:
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            guard.check(connection, token(1))
        guard.create(connection)
        guard.create(connection)
        guard.check(connection, token(8))
        with pytest.raises(Fenced):
            guard.check(connection, token(7))
        assert table.rpartition(".")[2] in {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


@pytest.mark.parametrize(
    "table", ['a"b', "a'b", "a b", "a;b", "", "1a", "a.b.c", ".a", "a.", "ä", "x" * 64, "a\n", None, 7, b"a"]
)
def test_a_table_of_another_name_is_refused(table):
    with pytest.raises(InvalidInput, match="expected letters, digits and underscores"):
        SqlGuard(table)


@pytest.mark.parametrize(("bad", "field"), BAD_TOKENS)
def test_a_bad_token_is_refused_before_anything_is_asked(bad, field):
    nothing = object()  # which would be refused itself
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        GUARD.check(nothing, bad)
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        asyncio.run(GUARD.check_async(nothing, bad))


def test_connections_of_others_are_refused_and_the_known_ones_named(path):
    engine = engine_of(path)
    known = "psycopg.Connection, sqlalchemy.Connection, sqlite3.Connection"
    with Session(engine) as session, opened(path) as connection:
        for other in (None, engine, session, connection.cursor()):
            with pytest.raises(UnknownOption, match=known):
                GUARD.check(other, token(1))
            with pytest.raises(UnknownOption, match=known):
                GUARD.create(other)
            with pytest.raises(UnknownOption, match="AsyncConnection"):
                asyncio.run(GUARD.check_async(other, token(1)))
        with pytest.raises(UnknownOption, match="AsyncConnection, sqlalchemy"):
            asyncio.run(GUARD.check_async(connection, token(1)))
    engine.dispose()


def test_a_database_that_was_not_tried_is_refused(path, monkeypatch):
    engine = engine_of(path)
    monkeypatch.setattr(engine.dialect, "name", "mysql")
    with engine.connect() as connection, pytest.raises(UnknownOption, match="dialect is 'mysql'"):
        GUARD.check(connection, token(1))
    engine.dispose()


def test_a_closed_connection_says_so_itself(path):
    with opened(path) as connection:
        connection.close()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            GUARD.check(connection, token(1))
    engine = engine_of(path)
    with engine.connect() as connection:
        connection.close()
        with pytest.raises(sqlalchemy.exc.ResourceClosedError):
            GUARD.check(connection, token(1))
    engine.dispose()


def test_what_it_checked_is_noted(path):
    with opened(path) as connection:
        assert not guards.checked("noted by sql")
        GUARD.check(connection, token(1, resource="noted by sql"))
    assert guards.checked("noted by sql")
