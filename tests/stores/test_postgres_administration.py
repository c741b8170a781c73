"""The findings of `doctor` and of an operator's acts on a PostgreSQL server, over a scripted door."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import psycopg
import pytest

from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable
from apportion.stores.catalog import parsed_url
from apportion.stores.damage.postgres import NAMES
from apportion.stores.postgres import administration as administrations
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.administration import PostgresAdministration
from apportion.stores.postgres.schema import Schema
from apportion.stores.postgres.task_tables import HAS_TASKS, LACKING_TASKS, TASKS_VERSION, VERSION
from apportion.stores.postgres.wire import PostgresNoReply
from apportion.stores.reaper import Counter
from tests.stores.test_postgres_door import SERVER
from tests.stores.test_postgres_link import Connection

NEWEST = 3


class Door:
    """Answers statements with `rows`; the schema is of `version`."""

    name = "postgresql://h/d"

    def __init__(self):
        self.made, self.server, self.version, self.upgrades = [], SERVER, NEWEST, 0
        self.transactions = []
        self.rows = {
            sql.NOTHING: [(1,)],
            sql.HAS_SCHEMA: [(True,)],
            HAS_TASKS: [(False,)],
            NAMES: [],
            sql.LACKING: [("",)],
            sql.WHOLE_STATE: [(7, 5, 3)],
            sql.RESTORED: [(7, 8)],
            sql.COUNTERS: [(7, 5, 1, 2, 10.0), (7, 5, 2, 3, 4.0)],
        }

    async def connect(self):
        self.made.append(Connection())
        return self.made[-1]

    async def look(self, connection):
        return self.server

    async def transact(self, connection, work, *, seconds):
        self.transactions.append(work)

    async def run(self, connection, statement):
        if isinstance(self.rows[statement], Exception):
            raise self.rows[statement]
        return self.rows[statement]


class SchemaOf(Schema):
    """A schema with a version that the door knows."""

    def __init__(self, door):
        super().__init__()
        self._door = door

    async def version(self, connection):
        return self._door.version

    async def upgrade(self, connection):
        self._door.upgrades += 1
        return 1, NEWEST


@pytest.fixture
def door():
    return Door()


@pytest.fixture
def store(door, monkeypatch):
    monkeypatch.setattr(administrations, "NEWEST", NEWEST)
    made = PostgresAdministration(parsed_url("postgresql://u:p@h/d"))
    made._door, made._schema = door, SchemaOf(door)
    yield made
    assert all(each.closed for each in door.made)


def found(store):
    return {each.subject: each for each in asyncio.run(store.inspect())}


WELL = [
    "server",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "latency",
    "schema",
    "rights",
    "state",
]


def test_a_server_that_is_well_is_found_well(store):
    every = found(store)
    assert (WELL, {"ok"}) == (list(every), {each.verdict for each in every.values()})
    assert "PostgreSQL 12" == every["server"].found
    assert "apportion: version 3, this release writes 3" == every["schema"].found
    assert "all that a member needs" == every["rights"].found
    assert "incarnation 7, revision 5, history after 3" == every["state"].found
    assert {""} == {each.advice for name, each in every.items() if name != "synchronous_standby_names"}


@pytest.mark.parametrize(
    ("changed", "subject", "expected"),
    [
        ({"version": 11}, "server", ("error", "PostgreSQL 11", "12 or newer")),
        ({"standby": True}, "role", ("error", "standby", "Name the primary")),
        ({"pooled": True}, "pooler", ("warning", "a transaction pooler stands before the server", "connect directly")),
        ({"fsync": False}, "fsync", ("error", "off", "Turn fsync on")),
        ({"full_page_writes": False}, "full_page_writes", ("error", "off", "Turn full_page_writes on")),
        ({"fsync": False}, "full_page_writes", ("ok", "on", "")),
        ({"synchronous_commit": "off"}, "synchronous_commit", ("warning", "off", "turn it on for themselves")),
        ({"synchronous_commit": "local"}, "synchronous_commit", ("ok", "local", "")),
        ({"synchronous_standby_names": ""}, "synchronous_standby_names", ("ok", "none", "may lose the last commits")),
        ({"synchronous_standby_names": "s1"}, "synchronous_standby_names", ("ok", "s1", "")),
    ],
)
def test_each_answer_of_a_server_is_a_finding(store, door, changed, subject, expected):
    verdict, says, advice = expected
    door.server = replace(SERVER, **changed)
    finding = found(store)[subject]
    assert (verdict, says, bool(advice)) == (finding.verdict, finding.found[: len(says)], bool(finding.advice))
    assert advice in finding.advice


@pytest.mark.parametrize(
    ("seconds", "verdict", "says"), [(0.05, "ok", "50.0 ms"), (0.051, "warning", "51.0 ms"), (0.0012, "ok", "1.2 ms")]
)
def test_a_far_server_is_warned_of(store, monkeypatch, seconds, verdict, says):
    times = iter((0.0, seconds))
    clock = SimpleNamespace(elapsed=lambda: next(times))
    monkeypatch.setattr(administrations, "SystemClock", lambda: clock)  # of this file alone: other threads have clocks
    finding = found(store)["latency"]
    assert (verdict, f"{says} for a round trip") == (finding.verdict, finding.found)
    assert (verdict == "warning") == bool(finding.advice)


@pytest.mark.parametrize(
    ("version", "exists", "expected"),
    [
        (0, False, ("absent", "not there yet", "first connect makes it")),
        (NEWEST - 1, True, ("error", "version 2, this release writes 3", "apportion store upgrade")),
        (NEWEST + 1, True, ("error", "version 4, this release writes 3", "Upgrade apportion")),
    ],
)
def test_a_schema_of_another_version_is_told_with_what_to_do(store, door, version, exists, expected):
    verdict, says, advice = expected
    door.version, door.rows[sql.HAS_SCHEMA] = version, [(exists,)]
    door.rows[sql.LACKING] = [("everything",)] if not exists else [("",)]
    every = found(store)
    assert (verdict, True, True) == (
        every["schema"].verdict,
        says in every["schema"].found,
        advice in every["schema"].advice,
    )
    assert "rights" not in every


@pytest.mark.parametrize(("version", "verdict"), [(TASKS_VERSION, "ok"), (TASKS_VERSION + 1, "error")])
def test_tables_of_tasks_are_found_with_their_version_and_rights(store, door, version, verdict):
    door.rows |= {HAS_TASKS: [(True,)], LACKING_TASKS: [("",)], VERSION: [(version,)]}
    assert verdict == {each.subject: each.verdict for each in asyncio.run(store.inspect())}["tasks"]
    door.rows |= {LACKING_TASKS: [("outcome",)]}
    assert "error" == {each.subject: each.verdict for each in asyncio.run(store.inspect())}["rights"]


def test_rights_that_are_lacking_are_named(store, door):
    door.rows[sql.LACKING] = [("item, meta",)]
    every = found(store)
    assert ("error", "lacking on item, meta") == (every["rights"].verdict, every["rights"].found)
    assert "schema" not in every


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PostgresNoReply("it broke"), "it broke"),
        (psycopg.errors.DiskFull(), "disk is full"),
        (StoreUnavailable("s", "r"), "r"),
    ],
)
def test_a_server_that_fails_meanwhile_is_one_finding(store, door, error, says):
    door.rows[sql.HAS_SCHEMA] = error
    (finding,) = found(store).values()
    assert ("server", "error", True) == (finding.subject, finding.verdict, says in finding.found)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(PostgresNoReply("broke"), StoreUnavailable), (psycopg.errors.InsufficientPrivilege(), StoreDenied)],
)
def test_an_act_that_fails_is_told_in_our_words(store, door, error, raised):
    door.rows[sql.RESTORED] = error
    with pytest.raises(raised):
        asyncio.run(store.restored())


def test_the_acts_of_an_operator_tell_what_was_and_what_is(store, door):
    assert (7, 8) == asyncio.run(store.restored())
    assert ((1, NEWEST), 1) == (asyncio.run(store.upgrade()), door.upgrades)
    assert ((0, TASKS_VERSION), 1) == (asyncio.run(store.upgrade_tasks()), len(door.transactions))
    counters = asyncio.run(store.renewals())
    assert (Counter(lease=1, renewals=2, ttl_seconds=10.0), Counter(lease=2, renewals=3, ttl_seconds=4.0)) == counters


class Database:
    """A connection to a database with a schema of a version; None: it has none."""

    def __init__(self, version):
        self.version, self.ran, self.is_whole = version, [], True

    async def execute(self, statement):
        self.ran.append(statement.decode())
        self._statement = statement.decode()
        return self

    async def fetchone(self):
        if "pg_tables" in self._statement:
            return (self.version is not None,)
        return None if self.version == "no row" else (self.version,)

    def transaction(self):
        return self

    async def __aenter__(self):
        self.ran.append("BEGIN")

    async def __aexit__(self, kind, error, place):
        self.ran.append("COMMIT" if error is None else "ROLLBACK")


@pytest.mark.parametrize(("stored", "version"), [(None, 0), (2, 2), ("2", 2), ("no row", 0)])
def test_the_version_of_a_schema_is_read_where_there_is_one(stored, version):
    assert version == asyncio.run(Schema().version(Database(stored)))


@pytest.mark.parametrize(
    ("stored", "before", "steps"),
    [(None, 0, ["one", "two", "more", "three"]), (1, 1, ["two", "more", "three"]), (NEWEST, NEWEST, [])],
)
def test_an_upgrade_is_one_transaction_under_a_lock_and_leads_from_the_version_there(
    monkeypatch, stored, before, steps
):
    monkeypatch.setattr("apportion.stores.postgres.schema.VERSIONS", (("one",), ("two", "more"), ("three",)))
    monkeypatch.setattr("apportion.stores.postgres.schema.NEWEST", NEWEST)
    database = Database(stored)
    assert (before, NEWEST) == asyncio.run(Schema().upgrade(database))
    assert ("BEGIN", "COMMIT") == (database.ran[0], database.ran[-1])
    assert "pg_advisory_xact_lock" in database.ran[1]
    looks = 3 if stored is None else 4
    last = [f'UPDATE "apportion".meta SET schema_version = {NEWEST}'] if steps else []
    assert [*steps, *last] == database.ran[looks:-1]


def test_a_schema_from_the_future_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr("apportion.stores.postgres.schema.NEWEST", NEWEST)
    database = Database(NEWEST + 1)
    with pytest.raises(InvalidInput, match="at most 3"):
        asyncio.run(Schema().upgrade(database))
    assert "ROLLBACK" == database.ran[-1]
    Schema().require_known(NEWEST)


@pytest.mark.parametrize(
    ("user", "is_fine"), [("u" * 63, True), ("u" * 64, False), ("ü" * 31, True), ("ü" * 32, False)]
)
def test_a_user_has_as_many_bytes_as_a_server_keeps(user, is_fine):
    if is_fine:
        assert all(user in each for each in Schema().grants(user))
    else:
        with pytest.raises(InvalidInput, match="63 bytes"):
            Schema().grants(user)
