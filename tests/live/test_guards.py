"""Guards on real engines: verdicts, transactions of every isolation level, clusters, and many processes at once."""

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import psycopg
import pytest
import redis
import redis.asyncio
import sqlalchemy
from hypothesis import given, settings
from sqlalchemy.ext.asyncio import create_async_engine

from apportion import guards
from apportion.errors import Fenced, InvalidInput, UnknownOption
from apportion.guards import RedisGuard, SqlGuard
from tests.guards.guard_writer import RESOURCES, log_of, opened, prepare
from tests.guards.tokens import HIGHEST, SEQUENCES, elsewhere, expected_of, token, verdicts_of
from tests.stores.rigs import absent
from tests.stores.rigs import redis as redis_rigs
from tests.stores.rigs.postgres import DATABASE, SECRET, USER, PostgresRig

pytestmark = pytest.mark.live
PATIENCE_SECONDS = 60
GUARD = SqlGuard()
EXAMPLES = 40


@pytest.fixture(scope="module")
def postgres():
    try:
        rig = PostgresRig()
    except FileNotFoundError as error:
        absent(str(error))
    with psycopg.connect(**target_of(rig)) as connection:
        GUARD.create(connection)
        connection.execute("CREATE TABLE writes (place INTEGER GENERATED ALWAYS AS IDENTITY, epoch INTEGER)")
    yield rig
    rig.stop()


def target_of(rig):
    host, port = rig.address()
    return {"host": host, "port": port, "user": USER, "password": SECRET, "dbname": DATABASE}


def url_of(rig, driver="psycopg"):
    host, port = rig.address()
    return sqlalchemy.URL.create(f"postgresql+{driver}", USER, SECRET, host, port, DATABASE)


@pytest.fixture
def connect(postgres):
    """Return what opens a connection; all are closed at the end, and what they wrote is gone."""
    made = []

    def open_one(**options):
        made.append(psycopg.connect(**target_of(postgres), **options))
        return made[-1]

    yield open_one
    for each in made:
        each.close()
    postgres.sql("TRUNCATE apportion_fences, writes")


def write(connection, epoch, holder="ann"):
    GUARD.check(connection, token(epoch, holder))
    connection.execute("INSERT INTO writes (epoch) VALUES (%s)", [epoch])


def written(postgres):
    return [epoch for (epoch,) in postgres.sql("SELECT epoch FROM writes ORDER BY place")]


def waits_for_a_lock(postgres):
    return postgres.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")[0][0] == 1


def until(is_so):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_verdicts_on_psycopg_are_those_of_the_rule(connect):
    connection = connect()

    @settings(max_examples=EXAMPLES)
    @given(SEQUENCES)
    def check(tokens):
        assert expected_of(tokens) == verdicts_of(lambda each: GUARD.check(connection, each), tokens)
        connection.rollback()

    check()


def test_verdicts_on_sqlalchemy_are_those_of_the_rule(postgres):
    engine = sqlalchemy.create_engine(url_of(postgres))

    @settings(max_examples=EXAMPLES)
    @given(SEQUENCES)
    def check(tokens):
        with engine.connect() as connection:
            assert expected_of(tokens) == verdicts_of(lambda each: GUARD.check(connection, each), tokens)

    check()
    engine.dispose()


def test_verdicts_of_asyncio_are_those_of_the_rule(postgres):
    async def verdicts_on(connection, tokens):
        found = []
        for each in tokens:
            try:
                await GUARD.check_async(connection, each)
                found.append(None)
            except Fenced as error:
                found.append((True, True, str(error.newer), error.newer.holder))
        await connection.rollback()
        return found

    async def main():
        engine = create_async_engine(url_of(postgres, "psycopg_async"))
        plain = await psycopg.AsyncConnection.connect(**target_of(postgres))
        async with engine.connect() as connection:
            for tokens in samples:
                assert expected_of(tokens) == await verdicts_on(plain, tokens)
                assert expected_of(tokens) == await verdicts_on(connection, tokens)
            with pytest.raises(UnknownOption, match="expected one of psycopg"):
                GUARD.check(connection, token(1))
        async with engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(InvalidInput, match="in a transaction"):
                await GUARD.check_async(connection, token(1))
        await plain.set_autocommit(True)
        with pytest.raises(InvalidInput, match="in a transaction"):
            await GUARD.check_async(plain, token(1))
        await plain.close()
        await engine.dispose()

    samples = []

    @settings(max_examples=EXAMPLES)
    @given(SEQUENCES)
    def draw(tokens):
        samples.append(tokens)

    draw()
    asyncio.run(main())


def test_the_newer_token_waits_for_the_transaction_that_was_let_in_before(postgres, connect):
    first, second = connect(), connect()
    write(first, 7)

    def write_newer():
        write(second, 8)
        second.commit()

    newer = threading.Thread(target=write_newer)
    newer.start()
    until(lambda: waits_for_a_lock(postgres))
    first.commit()
    newer.join(PATIENCE_SECONDS)
    with pytest.raises(Fenced):
        write(first, 7)
    assert [7, 8] == written(postgres)


@pytest.mark.parametrize(("end", "expected"), [("commit", [8]), ("rollback", [7])])
def test_an_older_token_waits_to_learn_whether_the_newer_one_wrote(postgres, connect, end, expected):
    first, second = connect(), connect()
    write(first, 8)
    refused = []

    def write_older():
        try:
            write(second, 7)
            second.commit()
        except Fenced as error:
            refused.append(error.newer)

    older = threading.Thread(target=write_older)
    older.start()
    until(lambda: waits_for_a_lock(postgres))
    getattr(first, end)()
    older.join(PATIENCE_SECONDS)
    assert (expected, [token(8)] if end == "commit" else []) == (written(postgres), refused)


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize("kept", [None, 5], ids=["first write", "later write"])
@pytest.mark.parametrize("epoch", [7, 9], ids=["older", "newer"])
def test_a_snapshot_from_before_another_wrote_is_not_let_in(postgres, connect, level, kept, epoch):
    late, other = connect(), connect()
    late.isolation_level = level
    if kept is not None:
        write(other, kept)
        other.commit()
    late.execute("SELECT count(*) FROM writes")
    write(other, 8)
    other.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        write(late, epoch)
    late.rollback()
    if epoch < 8:
        with pytest.raises(Fenced):
            write(late, epoch)
    else:
        write(late, epoch)
        late.commit()
    assert [each for each in (kept, 8, epoch) if each is not None and each != 7] == written(postgres)


def test_a_refusal_leaves_the_transaction_usable_for_another_resource(postgres, connect):
    connection = connect()
    write(connection, 8)
    with pytest.raises(Fenced):
        GUARD.check(connection, token(7))
    GUARD.check(connection, token(1, resource="mailers/18"))
    connection.execute("INSERT INTO writes (epoch) VALUES (1)")
    connection.commit()
    assert [8, 1] == written(postgres)


def test_autocommit_of_psycopg_is_refused_outside_of_a_transaction(postgres, connect):
    connection = connect(autocommit=True)
    with pytest.raises(InvalidInput, match="in a transaction"):
        GUARD.check(connection, token(7))
    with connection.pipeline():
        connection.execute("SELECT 1")  # on its way, so that the driver calls itself active
        with pytest.raises(InvalidInput, match="in a transaction"):
            GUARD.check(connection, token(7))
    assert 0 == postgres.sql("SELECT count(*) FROM apportion_fences")[0][0]
    with connection.transaction():
        write(connection, 7)
    assert [7] == written(postgres)


def test_in_a_pipeline_the_verdict_is_known_before_the_write(postgres, connect):
    connection = connect()
    with connection.pipeline():
        write(connection, 8)
        with pytest.raises(Fenced):
            write(connection, 7)
        connection.commit()
    assert [8] == written(postgres)


@pytest.mark.parametrize("where", ["engine", "connection"])
def test_autocommit_of_sqlalchemy_is_refused(postgres, where):
    options = {"isolation_level": "AUTOCOMMIT"}
    engine = sqlalchemy.create_engine(url_of(postgres), **(options if where == "engine" else {}))
    connection = engine.connect().execution_options(**(options if where == "connection" else {}))
    with connection, pytest.raises(InvalidInput, match="in a transaction"):
        GUARD.check(connection, token(7))
    engine.dispose()


def test_it_asks_with_cursors_of_its_own(connect):
    connection = connect(row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor)
    GUARD.check(connection, token(HIGHEST, "bob", incarnation=HIGHEST))
    with pytest.raises(Fenced) as caught:
        GUARD.check(connection, token(7))
    assert (token(HIGHEST, incarnation=HIGHEST), "bob") == (caught.value.newer, caught.value.newer.holder)


def test_a_table_in_a_schema_is_made_and_used_and_a_collation_does_no_harm(postgres, connect):
    connection = connect()
    connection.execute("CREATE SCHEMA fences")
    connection.execute("CREATE COLLATION shifted (provider = icu, locale = 'und-u-ka-shifted-kn')")
    guard = SqlGuard("fences.Kept")
    with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
        guard.check(connection, token(1))
    guard.create(connection)
    connection.execute('ALTER TABLE fences."Kept" ALTER position TYPE TEXT COLLATE shifted')

    @settings(max_examples=EXAMPLES)
    @given(SEQUENCES)
    def check(tokens):
        with connection.transaction(force_rollback=True):
            assert expected_of(tokens) == verdicts_of(lambda each: guard.check(connection, each), tokens)

    check()


def test_names_of_the_largest_size_fit(connect):
    connection = connect()
    GUARD.check(connection, token(HIGHEST, "h" * 1024, incarnation=HIGHEST, resource="ü" * 512))


def test_a_closed_connection_and_a_failed_transaction_say_so_themselves(connect):
    connection = connect()
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1/0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        GUARD.check(connection, token(7))
    connection.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        GUARD.check(connection, token(7))


WRITERS, WRITES = 8, 60


@pytest.mark.parametrize("kind", ["sqlite3", "psycopg"])
def test_what_many_processes_write_at_once_never_goes_back(kind, tmp_path, request):
    if kind == "sqlite3":
        target = str(tmp_path / "work.db")
    else:
        target = psycopg.conninfo.make_conninfo(**target_of(request.getfixturevalue("postgres")))
    with closing(opened(kind, target)) as connection:
        prepare(connection, kind)
        writers = [started(kind, target, number) for number in range(WRITERS)]
        counts = [ended(each) for each in writers]
        log = log_of(connection)
    accepted, refused = (sum(each) for each in zip(*counts, strict=True))
    assert (WRITERS * WRITES, len(log)) == (accepted + refused, accepted)
    assert min(accepted, refused) > WRITERS * WRITES / 10, "the test tried too little"
    for resource in RESOURCES:
        own = [(epoch, holder) for name, epoch, holder in log if name == resource]
        assert sorted(epoch for epoch, _ in own) == [epoch for epoch, _ in own]
        assert len({epoch for epoch, _ in own}) == len(set(own)), "one token, two holders"


def started(kind, target, number):
    command = [sys.executable, "-m", "tests.guards.guard_writer", kind, str(number), str(WRITES)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(f"{target}\n")
    process.stdin.flush()
    return process


def ended(process):
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert 0 == process.returncode
    return [int(word) for word in said.split()]


@contextmanager
def running(*options):
    try:
        rig = redis_rigs.RedisRig(*options)
    except FileNotFoundError as error:
        absent(str(error))
    try:
        yield rig
    finally:
        asyncio.run(rig.close())


@pytest.fixture(scope="module")
def server():
    with running() as rig:
        yield rig


@pytest.fixture
def client(server):
    with server.client() as made:
        yield made
        made.flushall()


REDIS = RedisGuard()
PUSH = "return redis.call('RPUSH', KEYS[1], ARGV[1]) -- a comment at its end"


@pytest.mark.parametrize("decodes", [False, True])
def test_verdicts_on_redis_are_those_of_the_rule(server, decodes):
    with redis.Redis(port=server.port, password=redis_rigs.PASSWORD, decode_responses=decodes) as client:
        count = iter(range(10**6))

        @settings(max_examples=EXAMPLES)
        @given(SEQUENCES)
        def check(tokens):
            own = elsewhere(tokens, next(count))
            assert expected_of(own) == verdicts_of(lambda each: REDIS.set(client, each, "key", str(each)), own)
            accepted = [each for each, verdict in zip(own, expected_of(own), strict=True) if verdict is None]
            kept = client.get("key")
            assert not accepted or str(accepted[-1]) == (kept if decodes else kept.decode())

        check()
        client.flushall()


def test_a_refused_script_has_run_nothing(client):
    assert 1 == REDIS.run(client, token(8), PUSH, ["log"], ["8"])
    with pytest.raises(Fenced) as caught:
        REDIS.run(client, token(7), PUSH, ["log"], ["7"])
    assert token(8) == caught.value.newer
    assert 2 == REDIS.run(client, token(9, "bob"), PUSH, ["log"], ["9"])
    assert [b"8", b"9"] == client.lrange("log", 0, -1)


@pytest.mark.parametrize(
    ("script", "returned"),
    [
        ("", None),
        ("return nil", None),
        ("return false", None),
        ("return 7", 7),
        ("return {1, {2, 'three'}}", [1, [2, b"three"]]),
        ("return {}", []),
        ("return redis.status_reply('FINE')", b"FINE"),
        ("return #KEYS .. ' ' .. #ARGV .. ' ' .. KEYS[2] .. ' ' .. ARGV[3]", b"2 3 two c"),
        ("return '100%s'", b"100%s"),
    ],
)
def test_what_a_script_returns_is_returned(client, script, returned):
    assert returned == REDIS.run(client, token(1), script, ["one", "two"], ["a", "b", "c"])


def test_more_arguments_than_lua_can_unpack_are_passed(client):
    many = [str(number) for number in range(20_000)]
    assert [20_000, b"19999"] == REDIS.run(client, token(1), "return {#ARGV, ARGV[#ARGV]}", args=many)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("return redis.error_reply('MINE failed')", "MINE failed"),
        ("return redis.call('INCR', 'text')", "not an integer"),
        ("return redis.pcall('INCR', 'text')", "not an integer"),
        ("return (", "compiling"),
    ],
)
def test_an_error_of_a_script_reaches_the_caller(client, script, said):
    client.set("text", "abc")
    with pytest.raises(redis.ResponseError, match=said):
        REDIS.run(client, token(1), script)


def test_redis_through_asyncio_obeys_the_rule(server):
    async def main():
        async with redis.asyncio.Redis(port=server.port, password=redis_rigs.PASSWORD) as client:
            await REDIS.set_async(client, token(8), "key", "8")
            with pytest.raises(Fenced):
                await REDIS.set_async(client, token(7), "key", "7")
            assert b"8" == await REDIS.run_async(client, token(8), "return redis.call('GET', KEYS[1])", ["key"])
            with pytest.raises(InvalidInput, match="_async methods"):
                REDIS.set(client, token(9), "key", "9")
            await client.flushall()

    asyncio.run(main())


def test_a_pipeline_is_refused(client):
    with client.pipeline() as pipe:
        with pytest.raises(InvalidInput, match="Pass no pipeline"):
            REDIS.set(pipe, token(9), "key", "9")
        pipe.reset()
    assert client.get("key") is None


def test_what_redis_checked_is_noted(client):
    assert not guards.checked("noted by redis")
    REDIS.set(client, token(1, resource="noted by redis"), "key", 1)
    assert guards.checked("noted by redis")


def test_on_a_cluster_keys_with_the_tag_of_the_resource_are_written_and_others_refused():
    cluster = ("cluster-enabled yes", f"cluster-port {redis_rigs.free_port()}", "cluster-announce-ip 127.0.0.1")
    with running(*cluster) as rig:
        with rig.client() as one:
            one.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: "ok" == one.execute_command("CLUSTER INFO")["cluster_state"])
        with redis.RedisCluster(host="127.0.0.1", port=rig.port, password=redis_rigs.PASSWORD) as client:
            REDIS.set(client, token(8), "{mailers/17}:sent", "8")
            with pytest.raises(Fenced):
                REDIS.set(client, token(7), "{mailers/17}:sent", "7")
            with pytest.raises(redis.exceptions.RedisClusterException, match="same key slot"):
                REDIS.set(client, token(9), "sent", "9")
            other = RedisGuard(fence_key=lambda resource: f"fence:{{{resource.rpartition('/')[2]}}}")
            other.set(client, token(7), "{17}:sent", "7")
            assert (b"8", None, b"7") == (client.get("{mailers/17}:sent"), client.get("sent"), client.get("{17}:sent"))


def test_two_clients_at_once_are_decided_one_after_the_other(server, client):
    """Redis runs one script at a time; this holds that the check is in the script of the write."""

    def writing(number):
        with server.client() as own:
            for epoch in range(number, 200, 2):
                try:
                    REDIS.run(own, token(epoch), PUSH, ["log"], [str(epoch)])
                except Fenced:
                    continue

    threads = [threading.Thread(target=writing, args=[number]) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE_SECONDS)
    log = [int(each) for each in client.lrange("log", 0, -1)]
    assert log
    assert sorted(log) == log
