"""What the handles of a process share in one SQLite file, in which order they write, and how its files stay small."""

import asyncio
import resource
import sqlite3
import threading
from contextlib import aclosing, closing, suppress
from pathlib import Path

import pytest

from apportion.errors import Compacted, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Committed, Put, Unchanged, connect
from apportion.stores.requests import CommitRequest
from apportion.stores.sqlite import ledger, shared_file
from apportion.stores.sqlite.connection import open_sqlite
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.lookout import SqliteLookout
from apportion.stores.sqlite.schema import make_schema
from apportion.stores.sqlite.shared_file import SharedFile
from apportion.stores.sqlite.store import in_file
from apportion.stores.sqlite.turns import Turns

DEADLINE_SECONDS = 60.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


async def put(store, key, value=b"v"):
    return await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value)])


def open_files(path):
    """Return how many descriptors this process has open to the file and the files beside it."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            found += str(each.readlink()).startswith(str(path))
    return found


def within(story):
    return asyncio.run(asyncio.wait_for(story, DEADLINE_SECONDS))


# Sharing


@pytest.mark.slow
def test_three_hundred_handles_that_watch_have_one_connection_and_one_task_and_leave_nothing(path, url):
    async def story():
        before = set(shared_file._shared._uses)  # of other tests, whose event loops were given up
        handles = [await connect(f"{url}?namespace=n{number}") for number in range(300)]
        after = (await handles[0].scan("")).revision
        watches = [handle.watch("", after=after) for handle in handles]
        waiting = [asyncio.ensure_future(anext(watch)) for watch in watches]
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > len(waiting) + 3:
                await asyncio.sleep(0.05)
        assert open_files(path) == 3  # the file, its -wal and its -shm
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for handle in handles[1:]:
            await handle.close()
        assert isinstance(await put(handles[0], "a"), Committed)
        await handles[0].close()
        assert open_files(path) == 0
        assert set(shared_file._shared._uses) <= before

    within(story())


def test_a_change_wakes_the_watch_of_its_own_namespace_alone(url):
    async def story():
        one, other = await connect(f"{url}?namespace=one"), await connect(f"{url}?namespace=other")
        reads = []
        read = other._next
        other._next = lambda *words: reads.append(words) or read(*words)
        quiet = asyncio.ensure_future(anext(other.watch("", after=0)))
        async with aclosing(one.watch("", after=0)) as changes:
            for number in range(5):
                await put(one, str(number))
                assert number + 1 == (await anext(changes)).revision
        assert len(reads) <= 2
        assert isinstance(await put(other, "mine"), Committed)
        assert 6 == (await quiet).revision
        await one.close()
        await other.close()

    within(story())


def test_while_the_store_is_away_no_lease_comes_nearer_to_its_end_and_no_watch_wakes(path):
    class Clock:
        now = 0.0

        def elapsed(self):
            return self.now

    async def story():
        clock, is_alive = Clock(), []
        file = SqliteFile(path, "sqlite", SystemClock())
        await file.open()
        lease = await file.write(lambda connection: ledger.grant(connection, 2.0))
        lookout, version = SqliteLookout(file, clock), file.data_version
        await lookout._look()  # all that it sees is news
        event = lookout._watchers.join(b"a", b"b").next_change()

        async def away():
            raise StoreUnavailable("sqlite", "it is away")

        for now in (1.0, 1.9, 2.5, 4.4, 4.6):
            clock.now, file.data_version = now, away if now == 1.9 else version
            await lookout._look()
            is_alive.append(lease in {each.lease for each in await file.read(ledger.counters)})
            assert is_alive[-1] is not event.is_set()
        assert [True] * 4 + [False] == is_alive
        file.close()

    within(story())


@pytest.mark.parametrize("error", [StoreUnavailable("the file", "it is away"), StoreDenied("the file", "no", "Wait.")])
def test_a_watch_waits_while_the_store_is_away_and_goes_on(url, error, monkeypatch):
    async def story():
        store, tries = await connect(url), []
        done = await store.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"1")])
        read = store._file.read

        async def failing(work):
            tries.append(work)
            if len(tries) < 4:
                raise error
            return await read(work)

        monkeypatch.setattr(store._file, "read", failing)
        async with aclosing(store.watch("a", after=0)) as changes:
            assert done.revision == (await anext(changes)).revision
        await store.close()

    within(story())


def test_a_quiet_watch_moves_on_with_the_history_that_is_forgotten(url, monkeypatch):
    monkeypatch.setattr(ledger, "KEPT_REVISIONS", 20)
    monkeypatch.setattr(ledger, "_FORGOTTEN_AT_ONCE", 5)

    async def story():
        busy, quiet = await connect(f"{url}?namespace=busy"), await connect(f"{url}?namespace=quiet")
        waiting = asyncio.ensure_future(anext(quiet.watch("", after=0)))
        for number in range(100):
            await put(busy, str(number))
            await asyncio.sleep(0.002)  # as a look takes, of which 2 500 revisions go by between two
        await put(quiet, "mine")
        assert 101 == (await waiting).revision
        await busy.close()
        await quiet.close()

    within(story())


def test_each_handle_judges_for_itself_whether_the_store_went_back(path, url, tmp_path):
    async def story():
        one, other = await connect(url), await connect(url)
        await put(one, "a")
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            source.backup(copy)
        await put(one, "b")
        await other.scan("")
        with closing(sqlite3.connect(path)) as target, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            copy.backup(target)
        assert 1 == (await one.scan("")).revision
        assert Committed(revision=2) == await put(one, "c")
        assert Committed(revision=3) == await put(one, "d")
        with closing(sqlite3.connect(path)) as target, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            copy.backup(target)
        with pytest.raises(StoreWentBack):
            await put(other, "e")
        with pytest.raises(StoreWentBack):
            await put(one, "e")
        await one.close()
        await other.close()

    within(story())


# Turns


def test_a_renewal_goes_before_the_commits_that_wait_already(path, url):
    async def story():
        store, order = await connect(url), []
        lease = (await store.grant(ttl_seconds=60)).id

        async def noted(name, call):
            await call
            order.append(name)

        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            calls = [asyncio.ensure_future(noted("commit", put(store, str(number)))) for number in range(5)]
            await asyncio.sleep(0.05)
            calls.append(asyncio.ensure_future(noted("renewal", store.renew([lease]))))
            await asyncio.sleep(0.05)
            assert order == []
            other.execute("ROLLBACK")
            await asyncio.gather(*calls)
        assert ["renewal", *["commit"] * 5] == order
        await store.close()

    within(story())


def test_a_process_rests_after_each_write_while_others_write_and_never_when_it_is_alone(monkeypatch):
    class Clock:
        now = 1.0

        def elapsed(self):
            return self.now

    async def story():
        turns, rests = Turns(Clock()), []

        async def sleep(seconds):
            rests.append(seconds)

        monkeypatch.setattr("apportion.stores.sqlite.turns.asyncio.sleep", sleep)
        for now, version in ((1.0, 5), (2.0, 5), (3.0, 5), (4.0, 6), (4.1, 6), (4.2, 6), (5.0, 6)):
            Clock.now = now
            turns.wrote(version)
            async with turns.ordinary:
                await turns.rest()
                rests.append(version)
        return [each if each >= 5 else "rest" for each in rests]

    assert [5, 5, 5, "rest", 6, "rest", 6, "rest", 6, 6] == within(story())


def test_a_writer_tries_again_for_the_lock_after_some_milliseconds_and_a_renewal_sooner():
    async def pauses():
        turns = Turns(SystemClock())
        ordinary = [turns.pause_seconds() for _ in range(100)]
        with turns.first():
            return ordinary, [turns.pause_seconds() for _ in range(100)]

    for found, usual in zip(within(pauses()), (0.004, 0.001), strict=True):
        assert usual / 2 <= min(found) < usual < max(found) <= 1.5 * usual


# Small files


@pytest.mark.slow
def test_the_wal_stays_small_though_somebody_always_reads(path, url, monkeypatch):
    monkeypatch.setattr(ledger, "KEPT_BYTES", 100_000)
    monkeypatch.setattr(ledger, "_FORGOTTEN_BYTES_AT_ONCE", 50_000)
    ended = threading.Event()

    def read():
        with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as connection:
            while not ended.is_set():
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM item").fetchall()
                ended.wait(0.003)
                connection.execute("COMMIT")

    async def story():
        store, largest, known = await connect(url), 0, Absent(key="a")
        readers = [threading.Thread(target=read) for _ in range(6)]
        for reader in readers:
            reader.start()
        for _ in range(400):
            outcome = await store.commit(when=[known], puts=[Put(key="a", value=bytes(50_000))])
            known = Unchanged(key="a", revision=outcome.revision)
            largest = max(largest, path.with_name("store.db-wal").stat().st_size)
        ended.set()
        for reader in readers:
            reader.join()
        await store.close()
        return largest

    assert asyncio.run(asyncio.wait_for(story(), 60)) <= 25_000_000  # of 70 MB that were written


def test_history_is_bounded_in_bytes_and_its_newest_revision_is_kept(path, url, monkeypatch):
    monkeypatch.setattr(ledger, "KEPT_BYTES", 10_000)
    monkeypatch.setattr(ledger, "_FORGOTTEN_BYTES_AT_ONCE", 1_000)

    async def story():
        store = await connect(url)
        for number in range(50):
            await put(store, str(number), bytes(1_000))
        with closing(sqlite3.connect(path)) as other:
            size = other.execute("SELECT sum(length(key) + coalesce(length(value), 0)) FROM event").fetchone()[0]
            assert size <= 11_000
            assert other.execute("SELECT history_bytes FROM meta").fetchone()[0] == size
            assert len(other.execute("SELECT * FROM event").fetchall()) >= 8
        with pytest.raises(Compacted):
            await anext(store.watch("", after=1))
        await put(store, "huge", bytes(500_000))
        assert 51 == (await anext(store.watch("", after=50))).revision
        await store.close()

    within(story())


def test_history_is_forgotten_in_portions_down_to_the_bytes_that_are_kept_exactly(path, monkeypatch):
    monkeypatch.setattr(ledger, "KEPT_BYTES", 1_000)
    monkeypatch.setattr(ledger, "_FORGOTTEN_BYTES_AT_ONCE", 200)
    oldest = []
    with closing(open_sqlite(path)) as connection:
        make_schema(connection)
        for number in range(16):
            key = b"%010d" % number
            request = CommitRequest(((key, None),), ((key, bytes(90), None),), ())  # 100 bytes of history
            ledger.commit(connection, ledger.state(connection), request)
            oldest.append(connection.execute("SELECT min(revision) FROM event").fetchone()[0])
    assert [1] * 12 + [4] * 3 + [7] == oldest


# Refusals that pass


def test_a_connection_that_was_opened_without_a_right_to_write_is_not_used_for_ever(path):
    async def story():
        clock, may_write = SystemClock(), True

        def opener(place):
            connection = open_sqlite(place)
            connection.execute(f"PRAGMA query_only={int(not may_write)}")
            return connection

        store = await in_file(SharedFile(SqliteFile(path, "sqlite", clock, opener=opener), clock), "n")
        waiting = asyncio.ensure_future(anext(store.watch("", after=0)))
        store._file._link.let_go()  # as for a fork
        may_write = False
        with pytest.raises(StoreDenied):
            await put(store, "a")
        may_write = True
        assert isinstance(await put(store, "a"), Committed)
        assert 1 == (await waiting).revision
        await store.close()

    within(story())


def test_an_open_store_works_on_without_descriptors_and_a_new_one_once_there_are_some(path, url):
    async def story():
        store = await connect(url)
        lease = (await store.grant(ttl_seconds=60)).id
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            assert isinstance(await put(store, "a"), Committed)
            assert frozenset({lease}) == await store.renew([lease])
            store._file._link.let_go()
            with pytest.raises(StoreUnavailable):
                await put(store, "b")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert isinstance(await put(store, "b"), Committed)
        await store.close()

    within(story())


def test_an_error_of_our_own_statement_is_none_of_the_file(url):
    async def story():
        store = await connect(url)
        with pytest.raises(sqlite3.OperationalError, match="syntax error"):
            await store._file.read(lambda connection: connection.execute("SELECT FROM").fetchall())
        assert isinstance(await put(store, "a"), Committed)
        await store.close()

    within(story())


def test_a_file_that_was_damaged_while_it_was_open_is_called_damaged(path, url):
    async def story():
        store = await connect(url)
        for number in range(100):
            await put(store, str(number), bytes(1_000))
        await store.close()
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))
        with pytest.raises(StoreUnavailable, match="damaged"):
            await (await connect(url)).scan("")

    within(story())
