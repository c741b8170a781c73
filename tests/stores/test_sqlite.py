"""The SQLite store: its places, locks, forks, copies put in its place, and the outcome of a failed COMMIT."""

import asyncio
import gc
import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import pytest

from apportion.errors import (
    Compacted,
    InvalidInput,
    NotPromised,
    OutcomeUnknown,
    StoreClosed,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
    UnknownOption,
)
from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Committed, Event, Put, StoreChange, Unchanged, Unknown, administration, connect
from apportion.stores.reaper import Counter
from apportion.stores.requests import CommitRequest
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite.connection import open_sqlite
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.link import links
from apportion.stores.sqlite.scan import SqliteScan
from apportion.stores.sqlite.schema import make_schema, version_of
from apportion.stores.sqlite.shared_file import SharedFile
from apportion.stores.sqlite.store import in_file
from apportion.stores.sqlite.tasks import SqliteTasks, make_tables
from apportion.stores.task_control import Listing
from apportion.stores.task_values import NewTask

DEADLINE_SECONDS = 10.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


async def put(store, key, value=b"v", lease=None):
    return await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value, lease=lease)])


async def keys(store):
    return [item.key for item in (await store.scan("")).items]


def refused(url, kind=InvalidInput):
    with pytest.raises(kind) as caught:
        asyncio.run(connect(url))
    return str(caught.value)


# Where it may stand


def test_a_missing_directory_is_named_with_the_command_that_makes_it(tmp_path):
    assert f"mkdir -p {tmp_path}/absent" in refused(f"sqlite:///{tmp_path}/absent/store.db")


def test_a_directory_is_no_store(tmp_path):
    assert "a directory" in refused(f"sqlite:///{tmp_path}")


def test_a_pipe_is_no_store(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in refused(f"sqlite:///{tmp_path}/pipe")


def test_a_file_that_is_no_database_is_refused_and_kept(path, url):
    path.write_bytes(b"these are my notes\n" * 100)
    assert "no database" in refused(url)
    assert b"these are my notes\n" * 100 == path.read_bytes()


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE other (a)", "PRAGMA application_id = 77", "PRAGMA user_version = 3"]
)
def test_a_database_of_another_application_is_refused_and_kept(path, url, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    before = path.read_bytes()
    assert "another application's" in refused(url)
    assert before == path.read_bytes()


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("reads", [1, 2])
def test_a_store_that_another_process_makes_meanwhile_is_no_other_applications(path, mode, reads):
    class Overtaken:
        def __init__(self, connection, other):
            self.connection, self.other, self.left = connection, other, reads

        def __getattr__(self, name):
            return getattr(self.connection, name)

        def execute(self, statement, *values):
            if self.left == 0:
                with suppress(sqlite3.OperationalError):  # it is told to wait
                    make_schema(self.other)
            self.left -= statement != "BEGIN"
            return self.connection.execute(statement, *values)

    with closing(open_sqlite(path)) as connection, closing(open_sqlite(path)) as other:
        other.execute(f"PRAGMA journal_mode={mode}")
        assert version_of(Overtaken(connection, other), path) == 0


def test_a_schema_from_the_future_is_refused_with_both_versions(path, url):
    asyncio.run(administration(url).upgrade())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    message = refused(url)
    assert "is 99, expected at most 1" in message
    assert "Upgrade apportion" in message


def test_a_file_that_cannot_be_written_is_refused(path, url, monkeypatch):
    asyncio.run(administration(url).upgrade())
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != path)
    assert "read-only" in refused(url)


@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_file_beside_it_that_cannot_be_written_is_named(path, url, monkeypatch, end):
    asyncio.run(administration(url).upgrade())
    side = path.with_name(path.name + end)
    side.touch()
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != side)
    assert f"change owner or mode of {side}\n" in refused(url) + "\n"


def test_a_name_that_is_too_long_is_refused(tmp_path):
    assert "length of its name" in refused(f"sqlite:///{tmp_path}/{'a' * 300}.db")


def test_a_directory_that_this_user_may_not_enter_is_refused(url, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", closed)
    assert "Permission denied" in refused(url)


def test_a_path_with_nul_is_refused(tmp_path):
    assert "NUL" in refused(f"sqlite:///{tmp_path}/a%00b.db")


@pytest.mark.parametrize(
    "kind",
    ["nfs4", "smb3", "9p", "virtiofs", "vboxsf", "vmhgfs", "gpfs", "ocfs2", "fuse", "fuse.sshfs", "fuse.unheard-of"],
)
def test_a_file_on_another_host_is_refused(tmp_path, url, monkeypatch, kind):
    assert kind in refused(stands_on(kind, tmp_path, url, monkeypatch))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "fuseblk", "fuse.fuse-overlayfs", "zfs"])
def test_a_file_on_this_host_is_not_refused(tmp_path, url, monkeypatch, kind):
    asyncio.run(_open_and_close(stands_on(kind, tmp_path, url, monkeypatch)))


def stands_on(kind, tmp_path, url, monkeypatch):
    """Let the file stand on a file system of a kind; return the URL."""
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 2 {os.major(device)}:{os.minor(device)} / /there rw - {kind} host:/there rw\n")
    monkeypatch.setattr("apportion.stores.sqlite.place._MOUNTS", mounts)
    return url


def test_a_file_in_memory_is_not_called_durable_and_connecting_warns(tmp_path, url, monkeypatch, caplog):
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 2 {os.major(device)}:{os.minor(device)} / /there rw - tmpfs tmpfs rw\n")
    monkeypatch.setattr("apportion.stores.sqlite.place._MOUNTS", mounts)
    with pytest.raises(NotPromised):
        asyncio.run(connect(url, needs=["durable"]))
    caplog.clear()
    asyncio.run(_open_and_close(url))
    (record,) = caplog.records
    assert ("apportion.stores", "WARNING") == (record.name, record.levelname)
    assert "use a file on a disk" in record.getMessage()


def test_two_slashes_name_a_host_and_are_refused_with_the_right_number():
    assert "three slashes" in refused("sqlite://store.db")


def test_an_unknown_option_is_refused(url):
    refused(f"{url}?namspace=x", UnknownOption)


def test_a_path_may_hold_an_at_sign_and_blanks(tmp_path):
    asyncio.run(_open_and_close(f"sqlite:///{tmp_path}/a b@c:d.db"))
    assert (tmp_path / "a b@c:d.db").exists()


async def _open_and_close(url):
    store = await connect(url)
    await store.close()


def test_a_relative_path_goes_on_to_mean_the_same_file(tmp_path, monkeypatch):
    async def story():
        monkeypatch.chdir(tmp_path)
        store = await connect("sqlite:///store.db")
        monkeypatch.chdir("/")
        assert Committed(revision=1) == await put(store, "a")
        await store.close()

    asyncio.run(story())
    assert (tmp_path / "store.db").exists()


# Locks


def test_waiting_for_a_lock_does_not_block_the_loop(path, url):
    async def story():
        store = await connect(url)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            commit = asyncio.ensure_future(put(store, "a"))
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not commit.done()
            assert [] == await keys(store)  # readers do not wait
            other.execute("ROLLBACK")
            assert Committed(revision=1) == await commit
        await store.close()

    asyncio.run(story())


@pytest.mark.parametrize("request_of", ["commit", "grant", "renew", "revoke"])
def test_a_request_that_waited_does_nothing_in_a_life_that_a_scan_accepted_meanwhile(path, url, request_of):
    async def story():
        store = await connect(url)
        lease = (await store.grant(ttl_seconds=60)).id
        await put(store, "held", lease=lease)
        request = {
            "commit": lambda: put(store, "a"),
            "grant": lambda: store.grant(ttl_seconds=5),
            "renew": lambda: store.renew([lease]),
            "revoke": lambda: store.revoke(lease),
        }[request_of]
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.ensure_future(request())
            await asyncio.sleep(0)
            other.execute("UPDATE meta SET incarnation = incarnation + 1")
            other.execute("COMMIT")
            other.execute("BEGIN IMMEDIATE")
            await store.scan("")
            assert not waiting.done()
            leases = other.execute("SELECT id, renewals FROM lease").fetchall()
            other.execute("ROLLBACK")
            with pytest.raises(StoreWentBack):
                await waiting
            assert ["held"] == await keys(store)
            assert leases == other.execute("SELECT id, renewals FROM lease").fetchall()
        assert isinstance(await put(store, "b"), Committed)
        await store.close()

    asyncio.run(story())


def test_a_lock_that_is_never_given_back_ends_as_unavailable(path, url, monkeypatch):
    monkeypatch.setattr("apportion.stores.sqlite.file.LOCK_WAIT_SECONDS", 0.05)

    async def story():
        store = await connect(url)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="held its lock"):
                await put(store, "a")
        assert [] == await keys(store)
        await store.close()

    asyncio.run(story())


def test_a_caller_that_never_pauses_leaves_others_their_turn(url):
    async def story():
        store = await connect(url)
        turns = 0

        async def other():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        others = asyncio.ensure_future(other())
        for number in range(10):
            await put(store, str(number))
            await store.scan("")
        others.cancel()
        assert turns >= 15
        await store.close()

    asyncio.run(story())


# COMMIT fails


class Faulty:
    """A connection with a next COMMIT that fails with a code, before or after it took effect."""

    text_factory = str

    def __init__(self, path, plan):
        self._connection = open_sqlite(path)
        self._plan = plan

    @property
    def in_transaction(self):
        return self._connection.in_transaction

    @property
    def total_changes(self):
        return self._connection.total_changes

    def execute(self, statement, values=(), /):
        self._plan["statements"].append(statement)
        if statement == "COMMIT" and self._plan["faults"]:
            code, takes_effect = self._plan["faults"].pop(0)
            if takes_effect:
                self._connection.execute("COMMIT")
            error = sqlite3.OperationalError("planted")
            error.sqlite_errorcode = code
            raise error
        return self._connection.execute(statement, values)

    def close(self):
        self._connection.close()


async def faulty(path, *faults):
    plan = {"faults": [], "statements": []}
    clock = SystemClock()
    file = SqliteFile(path, "sqlite", clock, opener=lambda path: Faulty(path, plan))
    store = await in_file(SharedFile(file, clock), "apportion")
    plan["statements"].clear()
    plan["faults"] += faults
    return store, plan


IOERR_FSYNC = 1034


@pytest.mark.parametrize(
    ("faults", "expected", "left"),
    [
        ([(IOERR_FSYNC, False)], StoreUnavailable, []),
        ([(sqlite3.SQLITE_FULL, False)], StoreUnavailable, []),
        ([(IOERR_FSYNC, True)], Unknown, ["a"]),
        ([(IOERR_FSYNC, False), (IOERR_FSYNC, False)], Unknown, []),
        ([(sqlite3.SQLITE_BUSY, False)], Committed, ["a"]),
    ],
    ids=["not there", "full", "there", "still failing", "busy"],
)
def test_a_failed_commit_is_never_called_a_failure_when_it_may_be_there(path, faults, expected, left):
    async def story():
        store, _ = await faulty(path, *faults)
        try:
            outcome = await put(store, "a")
        except StoreUnavailable as error:
            outcome = error
        assert expected is type(outcome)
        assert left == await keys(store)
        await store.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("faults", "expected", "left"),
    [
        ([(IOERR_FSYNC, True)], (("t", True),), ["t"]),
        ([(IOERR_FSYNC, False)], OutcomeUnknown, []),
        ([(IOERR_FSYNC, True), (IOERR_FSYNC, False)], OutcomeUnknown, ["t"]),
        ([(sqlite3.SQLITE_FULL, False)], StoreUnavailable, []),
    ],
    ids=["there", "not there", "still failing", "full"],
)
def test_an_enqueue_in_doubt_is_answered_by_a_look_or_unknown(path, faults, expected, left):
    async def story():
        store, plan = await faulty(path)
        tasks = SqliteTasks(store._shared, await store._file.write(make_tables), SystemClock())
        plan["faults"] += faults
        try:
            answer = await tasks.enqueue([NewTask(id="t", queue="q", name="f", arguments=b"[]")])
        except (OutcomeUnknown, StoreUnavailable) as error:
            answer = type(error)
        assert expected == answer
        assert left == [row.id for row in await tasks.query(Listing())]
        await store.close()

    asyncio.run(story())


def test_a_file_that_may_no_longer_be_written_denies_and_is_not_asked_again(path):
    async def story():
        store, plan = await faulty(path, (IOERR_FSYNC, True), (sqlite3.SQLITE_READONLY, False))
        assert isinstance(await put(store, "a"), Unknown)  # though what would settle it is denied
        plan["statements"].clear()
        store._file._link.connection.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreDenied, match="read-only") as caught:
            await put(store, "b")
        assert not caught.value.retryable
        await store.close()

    asyncio.run(story())


def test_a_failed_commit_in_doubt_is_written_over_before_it_is_called_a_failure(path):
    async def story():
        store, plan = await faulty(path, (IOERR_FSYNC, False))
        with pytest.raises(StoreUnavailable):
            await put(store, "a")
        assert 2 == plan["statements"].count("COMMIT")
        assert "UPDATE meta SET revision = revision" in plan["statements"]
        await store.close()

    asyncio.run(story())


def test_a_request_that_may_be_asked_twice_is_unavailable_when_in_doubt(path):
    async def story():
        store, plan = await faulty(path)
        lease = await store.grant(ttl_seconds=5)
        for request in (store.grant(ttl_seconds=5), store.renew([lease.id]), store.revoke(lease.id)):
            plan["faults"].append((IOERR_FSYNC, True))
            with pytest.raises(StoreUnavailable, match="The commit may have happened"):
                await request
        assert frozenset() == await store.renew([lease.id])
        await store.close()

    asyncio.run(story())


def test_commits_grants_and_revokes_are_full_and_renewals_normal(path):
    async def story():
        store, plan = await faulty(path)

        async def mode_of(request):
            plan["statements"].clear()
            await request
            return [each for each in plan["statements"] if each.startswith(("PRAGMA synchronous", "BEGIN IMM"))]

        lease = await store.grant(ttl_seconds=5)
        assert ["PRAGMA synchronous=NORMAL", "BEGIN IMMEDIATE"] == await mode_of(store.renew([lease.id]))
        assert ["BEGIN IMMEDIATE"] == await mode_of(store.renew([lease.id]))
        assert ["PRAGMA synchronous=FULL", "BEGIN IMMEDIATE"] == await mode_of(put(store, "a"))
        await store.renew([lease.id])
        assert ["PRAGMA synchronous=FULL", "BEGIN IMMEDIATE"] == await mode_of(store.grant(ttl_seconds=5))
        await store.renew([lease.id])
        assert ["PRAGMA synchronous=FULL", "BEGIN IMMEDIATE"] == await mode_of(store.revoke(lease.id))
        await store.close()

    asyncio.run(story())


# Forks


def in_a_child(story):
    """Run a story in a forked child of this process; return its result, as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, repr(story()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def test_a_handle_is_dead_in_a_forked_child_and_lives_on_in_the_parent(url):
    async def everything(store):
        async def watched():
            await anext(store.watch("", after=0))

        requests = [store.scan(""), put(store, "b"), store.grant(ttl_seconds=5), store.renew([1]), store.revoke(1)]
        outcomes = await asyncio.gather(*requests, watched(), return_exceptions=True)
        await store.close()
        return [type(outcome).__name__ for outcome in outcomes]

    with asyncio.Runner() as runner:
        store = runner.run(connect(url))
        runner.run(put(store, "a"))
        assert repr(["StoreClosed"] * 6) == in_a_child(lambda: asyncio.run(everything(store)))
        assert ["a"] == runner.run(keys(store))
        runner.run(store.close())


def test_a_child_that_connects_anew_loses_nothing_when_its_parent_closes(url):
    """With a connection inherited, SQLite would take its own lock for held, and the parent would delete the log."""
    with asyncio.Runner() as runner:
        parent = runner.run(connect(url))
        runner.run(put(parent, "a"))
        ready, go = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(_commit_around(url, ready[1], go[0]))
            finally:
                os._exit(0)
        os.read(ready[0], 1)
        runner.run(parent.close())
        os.write(go[1], b"x")
        os.waitpid(pid, 0)
        again = runner.run(connect(url))
        assert ["a", "after", "before"] == runner.run(keys(again))
        runner.run(again.close())


async def _commit_around(url, ready, go):
    store = await connect(url)
    await put(store, "before")
    os.write(ready, b"x")
    os.read(go, 1)
    await put(store, "after")


def test_no_connection_is_open_while_the_process_forks(path, url):
    with asyncio.Runner() as runner:
        store = runner.run(connect(url))
        assert path in open_files()
        assert str(path) not in in_a_child(open_files)
        assert [] == runner.run(keys(store))
        assert path in open_files()
        runner.run(store.close())


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_not_collected_while_the_process_forks_and_is_afterwards_if_it_was_before(collects):
    class File:
        def let_go(self):
            meanwhile.append(gc.isenabled())

    before, meanwhile, file = gc.isenabled(), [], File()
    links.add(file)
    (gc.enable if collects else gc.disable)()
    try:
        assert str(collects) == in_a_child(gc.isenabled)
        assert (collects, [False]) == (gc.isenabled(), meanwhile)
    finally:
        links.discard(file)
        (gc.enable if before else gc.disable)()


def open_files():
    return [descriptor.resolve() for descriptor in Path("/proc/self/fd").iterdir()]


# Another file in its place


def copy_back(path, copy):
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    fresh = path.with_name("fresh.db")
    shutil.copyfile(copy, fresh)
    fresh.replace(path)


def backup(path, copy):
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def test_an_old_copy_put_in_place_is_another_incarnation_for_open_and_new_handles(path, url, tmp_path):
    async def story():
        store = await connect(url)
        await put(store, "a")
        backup(path, tmp_path / "copy.db")
        await put(store, "b")
        first = await store.scan("")
        watch = store.watch("", after=first.revision)
        waiting = asyncio.ensure_future(anext(watch))
        copy_back(path, tmp_path / "copy.db")
        with pytest.raises(StoreWentBack):
            await put(store, "c")
        with pytest.raises(StoreWentBack):
            await store.grant(ttl_seconds=5)
        with pytest.raises(StoreWentBack):
            await asyncio.wait_for(waiting, DEADLINE_SECONDS)
        second = await store.scan("")
        assert ["a"] == [item.key for item in second.items]
        assert second.incarnation > first.incarnation
        assert Committed(revision=2) == await put(store, "c")
        other = await connect(url)
        assert second.incarnation == (await other.scan("")).incarnation
        await other.close()
        await store.close()

    asyncio.run(story())


def test_a_watch_of_the_life_before_ends_even_if_the_handle_has_scanned_since(path, url, tmp_path):
    async def story():
        store = await connect(url)
        await put(store, "a")
        backup(path, tmp_path / "copy.db")
        watch = store.watch("", after=0)
        await anext(watch)
        copy_back(path, tmp_path / "copy.db")
        await store.scan("")
        await put(store, "b")
        with pytest.raises(StoreWentBack):
            await anext(watch)
        await store.close()

    asyncio.run(story())


def test_a_file_that_is_gone_is_unavailable_until_it_is_back(path, url, tmp_path):
    async def story():
        store = await connect(url)
        await put(store, "a")
        path.rename(tmp_path / "aside.db")
        with pytest.raises(StoreUnavailable, match="gone"):
            await put(store, "b")
        with pytest.raises(StoreUnavailable, match="gone"):
            await store.scan("")
        (tmp_path / "aside.db").rename(path)
        assert Committed(revision=2) == await put(store, "b")
        await store.close()

    asyncio.run(story())


def test_restored_begins_another_incarnation_and_open_handles_notice(url):
    async def story():
        store = await connect(url)
        first = await store.scan("")
        before, after = await administration(url).restored()
        assert first.incarnation == before < after
        with pytest.raises(StoreWentBack):
            await put(store, "a")
        assert after == (await store.scan("")).incarnation
        assert Committed(revision=1) == await put(store, "a")
        await store.close()

    asyncio.run(story())


def test_a_lower_revision_is_noticed(path, url):
    async def story():
        store = await connect(url)
        await put(store, "a")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE meta SET revision = 0")
        with pytest.raises(StoreWentBack):
            await store.renew([1])
        await store.close()

    asyncio.run(story())


# Watches and history


def test_a_watch_sees_what_another_handle_did_and_ends_when_its_own_is_closed(url):
    async def story():
        ours, theirs = await connect(url), await connect(url)
        watch = ours.watch("", after=0)
        waiting = asyncio.ensure_future(anext(watch))
        await put(theirs, "a", b"1")
        expected = StoreChange(revision=1, events=(Event(key="a", value=b"1"),))
        assert expected == await asyncio.wait_for(waiting, DEADLINE_SECONDS)
        waiting = asyncio.ensure_future(anext(watch, "ended"))
        await asyncio.sleep(0)
        await ours.close()
        assert "ended" == await asyncio.wait_for(waiting, DEADLINE_SECONDS)
        await theirs.close()

    asyncio.run(story())


def test_what_another_did_wakes_a_watch_even_if_its_handle_has_scanned_it_already(url):
    async def story():
        ours, theirs = await connect(url), await connect(url)
        waiting = asyncio.ensure_future(anext(ours.watch("", after=0)))
        await asyncio.sleep(0)
        await put(theirs, "a")
        await ours.scan("")
        assert 1 == (await asyncio.wait_for(waiting, DEADLINE_SECONDS)).revision
        await ours.close()
        await theirs.close()

    asyncio.run(story())


def test_nothing_runs_while_nobody_watches(url):
    async def story():
        store = await connect(url)
        await put(store, "a")
        watch = store.watch("", after=0)
        await anext(watch)
        assert 2 == len(asyncio.all_tasks())
        await watch.aclose()
        await asyncio.sleep(0)
        assert 1 == len(asyncio.all_tasks())
        await store.close()

    asyncio.run(story())


def test_old_history_is_forgotten_in_portions_and_a_watch_that_needs_it_is_told(path, url, monkeypatch):
    monkeypatch.setattr(ledger, "KEPT_REVISIONS", 5)
    monkeypatch.setattr(ledger, "_FORGOTTEN_AT_ONCE", 3)

    async def story():
        store = await connect(url)
        for number in range(10):
            await put(store, str(number))
        with pytest.raises(Compacted, match="after 3"):
            await anext(store.watch("", after=2))
        assert [4, 5] == [(await anext(store.watch("", after=after))).revision for after in (3, 4)]
        await store.close()

    asyncio.run(story())
    with closing(sqlite3.connect(path)) as connection:
        assert [(4,)] == connection.execute("SELECT min(revision) FROM event").fetchall()


# Scans in portions


@pytest.mark.parametrize("kept", [10_000, 2], ids=["caught up", "begun anew"])
def test_a_scan_in_portions_shows_one_revision_whatever_is_written_meanwhile(path, url, monkeypatch, kept):
    monkeypatch.setattr("apportion.stores.sqlite.scan.PORTION_ITEMS", 3)
    monkeypatch.setattr(ledger, "KEPT_REVISIONS", kept)
    monkeypatch.setattr(ledger, "_FORGOTTEN_AT_ONCE", 1)

    async def story():
        store = await connect(url)
        for number in range(8):
            await put(store, f"own/{number}")
        models = {8: {f"own/{number}": (b"v", number + 1) for number in range(8)}}

        def write(name, value):
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                held = models[max(models)].get(name)
                key = b"apportion/" + name.encode()
                puts, deletes = (((key, value, None),), ()) if value else ((), (key,))
                revision = ledger.commit(
                    other, ledger.state(other), CommitRequest(((key, held and held[1]),), puts, deletes)
                )
                other.execute("COMMIT")
            model = {**models[revision - 1], name: (value, revision)}
            models[revision] = {name: each for name, each in model.items() if each[0]}

        writes = iter(
            [("own/0", b"w"), ("own/1", b""), ("own/00", b"n"), ("own/9", b"n"), ("own/7", b""), ("own/0", b"x")]
        )
        step = SqliteScan.step

        def interrupted(self, connection):
            state = step(self, connection)
            asyncio.get_running_loop().call_soon(lambda: [write(*each) for each in islice(writes, 2)])
            return state

        monkeypatch.setattr(SqliteScan, "step", interrupted)
        scan = await store.scan("own/")
        assert scan.revision > 8
        assert models[scan.revision] == {item.key: (item.value, item.revision) for item in scan.items}
        assert sorted(models[scan.revision]) == [item.key for item in scan.items]
        await store.close()

    asyncio.run(story())


# Leases


def test_a_lease_that_nobody_renews_is_ended_by_whoever_watches(url):
    async def story():
        holder, other = await connect(url), await connect(url)
        lease = await holder.grant(ttl_seconds=0.5)
        granted_at = time.monotonic()
        await put(holder, "member/a", lease=lease.id)
        await holder.close()
        watch = other.watch("member/", after=1)
        change = await asyncio.wait_for(anext(watch), DEADLINE_SECONDS)
        assert time.monotonic() - granted_at >= 0.5
        assert StoreChange(revision=2, events=(Event(key="member/a", value=None),)) == change
        assert frozenset() == await other.renew([lease.id])
        assert lease.id != (await other.grant(ttl_seconds=0.5)).id
        await other.close()

    asyncio.run(story())


def test_a_lease_that_was_renewed_between_the_read_and_the_end_lives_on(path, url):
    async def story():
        store = await connect(url)
        lease = await store.grant(ttl_seconds=0.5)
        await put(store, "a", lease=lease.id)
        read = Counter(lease=lease.id, renewals=0, ttl_seconds=0.5)
        await store.renew([lease.id])
        file = SqliteFile(path, "sqlite", SystemClock())
        await file.open()
        await file.write(lambda connection: ledger.reap(connection, [read]))
        file.close()
        assert ["a"] == await keys(store)
        assert {lease.id} == await store.renew([lease.id])
        await store.close()

    asyncio.run(story())


def test_a_lease_ends_in_all_namespaces_at_one_revision(url):
    async def story():
        ours, theirs = await connect(url), await connect(f"{url}?namespace=theirs")
        lease = await ours.grant(ttl_seconds=5)
        await put(ours, "a", lease=lease.id)
        await put(theirs, "b", lease=lease.id)
        await ours.revoke(lease.id)
        changes = [await anext(store.watch("", after=2)) for store in (ours, theirs)]
        assert [(3, "a"), (3, "b")] == [(change.revision, change.events[0].key) for change in changes]
        await ours.close()
        await theirs.close()

    asyncio.run(story())


# What an operator asks


def verdicts(url):
    return {finding.subject: finding.verdict for finding in asyncio.run(administration(url).inspect())}


def test_inspecting_makes_no_file(path, url):
    assert "absent" == verdicts(url)["file"]
    assert not path.exists()


def test_a_sound_store_is_inspected_without_a_complaint_about_its_content(url):
    asyncio.run(_open_and_close(url))
    found = verdicts(url)
    assert {"ok"} == {
        found[each] for each in ("schema", "content", "journal mode", "durability", "state", "size", "SQLite")
    }
    [content] = [each for each in asyncio.run(administration(url).inspect()) if each.subject == "content"]
    assert ("sound", "") == (content.found, content.advice)


def test_a_file_that_anybody_may_write_is_warned_of(path, url):
    asyncio.run(_open_and_close(url))
    path.chmod(0o666)
    assert "warning" == verdicts(url)["permissions"]


@pytest.mark.parametrize("content", [b"my notes\n" * 500, None], ids=["no database", "directory"])
def test_what_is_no_store_is_a_finding(path, url, content):
    path.mkdir() if content is None else path.write_bytes(content)
    assert {"error"} <= set(verdicts(url).values())


def test_an_empty_schema_and_one_of_the_future_are_findings(path, url):
    path.touch()
    assert "absent" == verdicts(url)["schema"]
    assert (0, 1) == asyncio.run(administration(url).upgrade())
    assert (1, 1) == asyncio.run(administration(url).upgrade())
    assert ("ok", None) == (verdicts(url)["schema"], verdicts(url).get("tasks"))
    assert ((0, 1), (1, 1)) == tuple(asyncio.run(administration(url).upgrade_tasks()) for _ in range(2))
    assert "ok" == verdicts(url)["tasks"]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE work_meta SET version = 99")
        connection.commit()
    assert ("ok", "error") == (verdicts(url)["schema"], verdicts(url)["tasks"])
    with pytest.raises(InvalidInput, match="99"):
        asyncio.run(administration(url).upgrade_tasks())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "error" == verdicts(url)["file"]
    with pytest.raises(InvalidInput, match="99"):
        asyncio.run(administration(url).upgrade())


def test_the_statements_of_the_upgrade_make_a_store(path, url):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("\n".join(administration(url).upgrade_statements()))
    asyncio.run(_open_and_close(url))


@pytest.mark.parametrize("user", ["", "a b", "a;rm", "-x", "a\nb"])
def test_rights_are_given_to_a_name_that_a_shell_can_take(url, user):
    with pytest.raises(InvalidInput):
        administration(url).grants(user)


def test_rights_are_given_to_all_files_that_are_there_and_to_those_that_will_be(path, url):
    async def story():
        store = await connect(url)
        try:
            return administration(url).grants("ana")
        finally:
            await store.close()

    rights = asyncio.run(story())
    named = [rights[0].removeprefix("setfacl -m u:ana:rwx "), *(each.split("u:ana:rw ")[1] for each in rights[1:])]
    beside = [path.parent, path.parent, path, f"{path}-wal", f"{path}-shm"]
    assert [f"'{each}'" for each in beside] == named
    assert rights[1].startswith("setfacl -d ")


def test_rights_to_a_file_that_is_not_there_are_not_printed(url):
    with pytest.raises(InvalidInput, match="store upgrade"):
        administration(url).grants("ana")


# Many keys, many processes


@pytest.mark.slow
def test_a_million_keys_under_one_prefix_are_scanned_and_the_next_commit_is_quick(path, url):
    async def story():
        store = await connect(url)
        with closing(sqlite3.connect(path)) as connection:
            rows = ((f"apportion/own/{number:07}".encode(), b"v", 1) for number in range(10**6))
            connection.executemany("INSERT INTO item (key, value, revision) VALUES (?, ?, ?)", rows)
            connection.execute("UPDATE meta SET revision = 1")
            connection.commit()
        longest = asyncio.ensure_future(_longest_pause_of_the_loop())
        assert 10**6 == len((await store.scan("own/")).items)
        longest.cancel()
        assert await longest < 2.0  # the scan itself takes longer: renewals go on meanwhile
        held = Unchanged(key="own/0500000", revision=1)
        before = time.monotonic()
        outcome = await store.commit(when=[held], puts=[Put(key=held.key, value=b"w")])
        assert Committed(revision=2) == outcome
        assert time.monotonic() - before < 1.0
        await store.close()

    asyncio.run(story())


async def _longest_pause_of_the_loop():
    longest, before = 0.0, time.monotonic()
    try:
        while True:
            await asyncio.sleep(0)
            longest, before = max(longest, time.monotonic() - before), time.monotonic()
    except asyncio.CancelledError:
        return longest


def _race(url, rounds):
    """Raise a number by compare-and-set; return how often this process did it."""

    async def story():
        store, won = await connect(url), 0
        while won < rounds:
            (item,) = (await store.scan("n")).items
            raised = Put(key="n", value=b"%d" % (int(item.value) + 1))
            outcome = await store.commit(when=[Unchanged(key="n", revision=item.revision)], puts=[raised])
            won += isinstance(outcome, Committed)
        await store.close()

    asyncio.run(story())


@pytest.mark.slow
def test_of_processes_that_race_every_success_counts_once(url):
    async def begun():
        store = await connect(url)
        await put(store, "n", b"0")
        await store.close()

    asyncio.run(begun())
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _race(url, 25)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    assert [0] * 4 == [os.waitpid(pid, 0)[1] for pid in children]

    async def counted():
        store = await connect(url)
        found = await store.scan("n")
        await store.close()
        return found.items[0].value, found.revision

    assert (b"100", 101) == asyncio.run(counted())


def test_a_closed_handle_says_so(url):
    async def story():
        store = await connect(url)
        await store.close()
        await store.close()
        for request in (store.scan(""), put(store, "a"), store.grant(ttl_seconds=5), store.renew([1])):
            with pytest.raises(StoreClosed):
                await request
        with pytest.raises(StoreClosed):
            await anext(store.watch("", after=0))

    asyncio.run(story())
