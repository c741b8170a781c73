"""The door to PostgreSQL over a scripted driver: the hosts that are tried, the retries, and the refusals."""

import asyncio
from types import SimpleNamespace

import psycopg
import pytest

from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable
from apportion.stores.catalog import parsed_url
from apportion.stores.postgres import door as doors
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.door import Door, Server
from apportion.stores.postgres.wire import PostgresNoReply

ONE = "postgresql://u:p@h/d"
MANY = "postgresql://u:p@h1,h2,h3/d"
NEWEST = 3
SERVER = Server(
    version=12,
    pooled=False,
    standby=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    synchronous_standby_names="",
    fingerprint="7/1",
    encrypted=True,
    local=False,
    round_trip_seconds=0.5,
)


class Connection:
    """A connection of the driver that is open, or was closed."""

    prepare_threshold = 5

    def __init__(self, *, closed=False):
        self.closed = closed


def door_of(url=ONE):
    return Door(parsed_url(url))


def asked_of(target):
    return psycopg.conninfo.conninfo_to_dict(target)


@pytest.fixture(autouse=True)
def newest(monkeypatch):
    """Let schemas have had several versions."""
    monkeypatch.setattr(doors, "NEWEST", NEWEST)


@pytest.fixture
def driver(monkeypatch):
    """Hosts that were tried, and those that answer; `silent` ones take an hour, `slow` ones a moment."""
    world = SimpleNamespace(tried=[], up={"h"}, silent=set(), slow=set())

    async def connect(target, *, autocommit):
        assert autocommit
        host = asked_of(target)["host"]
        world.tried.append(host)
        await asyncio.sleep(3600 if host in world.silent else 0.05 if host in world.slow else 0)
        if host not in world.up:
            raise psycopg.OperationalError(f"{host}: Connection refused")
        return host

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", connect)
    return world


@pytest.fixture
def answers(monkeypatch):
    """The answers to statements, in order: rows, or an error."""
    world = SimpleNamespace(asked=[], given=[])

    async def rows_of(connection, query, parameters):
        world.asked.append((query.decode(), parameters))
        answer = world.given.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(doors, "rows_of", rows_of)
    return world


def test_the_host_that_answered_last_is_tried_first_and_the_others_in_turn(driver):
    async def main():
        door = door_of(MANY)
        driver.up = {"h3"}
        assert "h3" == await door.connect()
        assert "h3" == await door.connect()
        driver.up = {"h1", "h2"}
        assert "h1" == await door.connect()
        assert "h1" == await door.connect()

    asyncio.run(main())
    assert ["h1", "h2", "h3", "h3", "h3", "h1", "h1"] == driver.tried


def test_when_no_host_answers_all_have_been_tried_and_the_reason_is_told(driver):
    driver.up = set()
    with pytest.raises(StoreUnavailable, match="no server listens"):
        asyncio.run(door_of(MANY).connect())
    assert ["h1", "h2", "h3"] == driver.tried


@pytest.mark.parametrize(("url", "tried"), [(ONE, ["h"]), (MANY, ["h1", "h2"])])
def test_a_host_that_is_silent_is_left_for_the_next_within_what_the_caller_gives_it(driver, url, tried):
    driver.up, driver.silent = {"h2"}, {"h", "h1"}

    async def main():
        async with asyncio.timeout(1):
            if url == MANY:
                assert "h2" == await door_of(url).connect(seconds=0.01)
            else:
                with pytest.raises(StoreUnavailable, match="no server answered in time"):
                    await door_of(url).connect(seconds=0.01)

    asyncio.run(main())
    assert tried == driver.tried


def test_a_connect_that_took_too_long_leaves_no_socket_even_while_its_error_is_kept():
    async def main():
        ended = asyncio.Event()

        async def silent(reader, writer):
            await reader.read()
            writer.close()
            ended.set()

        server = await asyncio.start_server(silent, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        door = door_of(f"postgresql://ann@127.0.0.1:{port}/work?sslmode=disable")
        with pytest.raises(StoreUnavailable, match="in time") as kept:
            await door.connect(seconds=0.1)
        async with asyncio.timeout(5):
            await ended.wait()
        server.close()
        return kept

    assert asyncio.run(main()).value.retryable


def test_one_host_of_many_has_less_time_than_the_only_one(driver, monkeypatch):
    monkeypatch.setattr(doors, "_HOST_OF_MANY_SECONDS", 0.01)
    monkeypatch.setattr(doors, "_CONNECT_SECONDS", 1.0)
    driver.up, driver.slow = {"h", "h1", "h2"}, {"h", "h1"}
    assert "h2" == asyncio.run(door_of("postgresql://u@h1,h2/d").connect())
    assert "h" == asyncio.run(door_of().connect())
    monkeypatch.setattr(doors, "_CONNECT_SECONDS", 0.01)
    driver.silent = {"h"}
    with pytest.raises(StoreUnavailable, match="no server answered in time"):
        asyncio.run(asyncio.wait_for(door_of().connect(), 1))


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u@/d", [("localhost", "5432")]),
        ("postgresql://u@h/d", [("h", "5432")]),
        ("postgresql://u@h:7/d", [("h", "7")]),
        ("postgresql://u@h1:7,h2,h3:8/d", [("h1", "7"), ("h2", "5432"), ("h3", "8")]),
        ("postgresql://u@:7/d?host=%2Frun%2Fa,%2Frun%2Fb", [("/run/a", "7"), ("/run/b", "7")]),
    ],
)
def test_each_host_is_asked_at_its_port(url, hosts):
    assert hosts == [(asked_of(each)["host"], asked_of(each)["port"]) for each in door_of(url)._targets]


def test_as_many_ports_as_hosts_are_named():
    with pytest.raises(InvalidInput, match="one per host"):
        door_of("postgresql://u@h1:7,h2:8/d?host=a,b,c")


def test_a_database_has_to_be_named_and_a_watch_has_two_kinds():
    with pytest.raises(InvalidInput, match="the name of a database"):
        door_of("postgresql://u@h")
    with pytest.raises(InvalidInput, match="hints or poll"):
        door_of(f"{ONE}?watch=often")
    assert (False, False, True) == tuple(
        door_of(f"{ONE}{more}").is_polled for more in ("", "?watch=hints", "?watch=poll")
    )


def test_of_many_hosts_only_one_that_takes_writes_will_do_and_an_empty_option_is_not_given():
    one, many = (asked_of(door_of(url)._targets[0]) for url in (ONE, MANY))
    assert ("read-write", False) == (many["target_session_attrs"], "target_session_attrs" in one)
    assert ("u", "p", "d", "apportion") == tuple(
        one[name] for name in ("user", "password", "dbname", "application_name")
    )
    assert "sslmode" not in one
    assert "require" == asked_of(door_of(f"{ONE}?sslmode=require")._targets[0])["sslmode"]


@pytest.mark.parametrize(
    ("fsync", "pages", "durable"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_server_is_durable_that_flushes_and_writes_whole_pages(fsync, pages, durable):
    fields = {name: getattr(SERVER, name) for name in SERVER.__dataclass_fields__}
    assert durable is Server(**{**fields, "fsync": fsync, "full_page_writes": pages}).durable


@pytest.mark.parametrize("error", [psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected])
def test_what_the_server_asks_to_be_done_again_is_done_three_times_at_most(answers, error):
    async def main():
        answers.given = [error(), error(), [(1,)], error(), error(), error(), [(2,)]]
        assert [(1,)] == await door_of().run(Connection(), "SELECT", (7,))
        with pytest.raises(StoreUnavailable, match="other transactions"):
            await door_of().run(Connection(), "SELECT")

    asyncio.run(main())
    assert 6 == len(answers.asked)
    assert ("SELECT", (7,)) == answers.asked[2]


@pytest.mark.parametrize(
    ("error", "closed", "raised"),
    [
        (psycopg.OperationalError(), True, PostgresNoReply),
        (psycopg.errors.StatementCompletionUnknown(), False, PostgresNoReply),
        (psycopg.errors.DiskFull(), False, StoreUnavailable),
        (psycopg.errors.InsufficientPrivilege(), False, StoreDenied),
    ],
)
def test_a_statement_whose_connection_broke_may_have_happened_and_one_that_was_refused_has_not(
    answers, error, closed, raised
):
    answers.given = [error]
    with pytest.raises(raised):
        asyncio.run(door_of().run(Connection(closed=closed), "SELECT"))


def test_a_connection_that_takes_longer_than_the_caller_gives_it_is_cut(monkeypatch):
    cut = []
    monkeypatch.setattr("apportion.stores.postgres.wire.cut", cut.append)

    async def rows_of(connection, query, parameters):
        while not cut:
            await asyncio.sleep(0)
        connection.closed = True
        raise psycopg.OperationalError

    monkeypatch.setattr(doors, "rows_of", rows_of)
    connection = Connection()
    with pytest.raises(PostgresNoReply, match=r"within 0\.01 s"):
        asyncio.run(door_of().run(connection, "SELECT", seconds=0.01))
    assert [connection] == cut


def probed(**info):
    """A connection to a server of version 16 that names process 7."""
    connection = Connection()
    about = {"server_version": 160004, "backend_pid": 7, "hostaddr": "10.0.0.1", **info}
    connection.info, connection.pgconn = SimpleNamespace(**about), SimpleNamespace(ssl_in_use=1)
    return connection


PROBE = (7, False, "on", "on", "on", "s1", "7/1")


def test_a_look_tells_what_is_at_the_other_end(answers):
    answers.given = [[PROBE]]
    server = asyncio.run(door_of().look(probed()))
    assert (16, False, False, True, True) == (
        server.version,
        server.pooled,
        server.standby,
        server.fsync,
        server.full_page_writes,
    )
    assert ("on", "s1", "7/1") == (server.synchronous_commit, server.synchronous_standby_names, server.fingerprint)
    assert (True, False) == (server.encrypted, server.local)
    assert 0 <= server.round_trip_seconds < 10


@pytest.mark.parametrize(
    ("name", "changed", "value"),
    [("pooled", 0, 8), ("standby", 1, True), ("fsync", 2, "off"), ("full_page_writes", 3, "off")],
)
def test_a_look_sees_each_answer_for_itself(answers, name, changed, value):
    answers.given = [[tuple(value if at == changed else each for at, each in enumerate(PROBE))]]
    assert getattr(asyncio.run(door_of().look(probed())), name) is not getattr(SERVER, name)


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::1"])
def test_a_server_on_this_host_is_local(answers, address):
    answers.given = [[PROBE]]
    assert asyncio.run(door_of().look(probed(hostaddr=address))).local


def test_a_look_or_an_admission_without_a_reply_had_no_effect(answers):
    answers.given = [psycopg.OperationalError()]
    with pytest.raises(StoreUnavailable, match="connection broke"):
        asyncio.run(door_of().look(Connection(closed=True)))
    answers.given = [psycopg.OperationalError()]
    with pytest.raises(StoreUnavailable, match="connection broke"):
        asyncio.run(admitted(connection=Connection(closed=True)))


class Schema:
    """A schema that is at `version`, or fails."""

    def __init__(self, version=NEWEST, error=None):
        self._version, self._error, self.upgrades = version, error, 0

    def fill(self, statement):
        return statement.encode()

    async def version(self, connection):
        if isinstance(self._version, Exception):
            raise self._version
        return self._version

    async def upgrade(self, connection):
        self.upgrades += 1
        if self._error is not None:
            raise self._error
        return 0, NEWEST

    def require_known(self, version):
        if version > NEWEST:
            raise InvalidInput("version of the schema", version, "an older one", "Update.")


async def admitted(schema=None, connection=None, **changed):
    """Admit a server; return its schema and connection."""
    door, connection = door_of(), connection or Connection()
    door.schema = schema or Schema()
    fields = {name: getattr(SERVER, name) for name in SERVER.__dataclass_fields__}
    await door.admit(connection, Server(**{**fields, **changed}))
    return door.schema, connection


def test_a_server_is_admitted_with_its_fingerprint_and_behind_a_pooler_nothing_is_prepared(answers):
    answers.given = [[], []]
    _, connection = asyncio.run(admitted())
    assert 5 == connection.prepare_threshold
    _, connection = asyncio.run(admitted(pooled=True))
    assert connection.prepare_threshold is None
    assert [(sql.ADOPT, {"fingerprint": "7/1"})] * 2 == answers.asked


def test_an_absent_schema_is_made_and_one_that_is_there_is_not(answers):
    answers.given = [[], []]
    assert 0 == asyncio.run(admitted(Schema()))[0].upgrades
    assert 1 == asyncio.run(admitted(Schema(version=0)))[0].upgrades


@pytest.mark.parametrize(
    ("schema", "changed", "error", "says"),
    [
        (Schema(), {"version": 11}, InvalidInput, "PostgreSQL 12 or newer"),
        (Schema(), {"standby": True}, StoreUnavailable, "standby"),
        (Schema(version=NEWEST + 1), {}, InvalidInput, "Update"),
        (Schema(version=NEWEST - 1), {}, StoreUnavailable, f"not {NEWEST}"),
        (Schema(version=0, error=psycopg.errors.InsufficientPrivilege()), {}, StoreDenied, "may not create it"),
        (Schema(version=0, error=psycopg.errors.DiskFull()), {}, StoreUnavailable, "disk is full"),
        (Schema(version=psycopg.errors.InsufficientPrivilege()), {}, StoreDenied, "lacks rights"),
    ],
)
def test_a_server_that_cannot_be_worked_with_is_refused_and_adopts_nothing(answers, schema, changed, error, says):
    with pytest.raises(error, match=says):
        asyncio.run(admitted(schema, **changed))
    assert [] == answers.asked


def test_a_connection_that_breaks_while_the_schema_is_looked_at_is_told_as_that(answers):
    with pytest.raises(StoreUnavailable, match="broke at once"):
        asyncio.run(admitted(Schema(version=psycopg.OperationalError()), Connection(closed=True)))
