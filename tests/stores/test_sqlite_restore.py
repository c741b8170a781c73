"""The SQLite store when copies are put in the place of its file: by the procedure, against it, and by somebody else."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from apportion.errors import InvalidInput, StoreUnavailable, StoreWentBack
from apportion.stores import Absent, Committed, Put, administration, connect

DEADLINE_SECONDS = 10.0
_MEMBER = """
import sys
from apportion import sync
from apportion.stores import Absent, Put
from apportion.stores.sqlite.checkpoint import Checkpoints
Checkpoints.make = lambda *_: None  # so that all stands in the -wal when it is killed
with sync.open_store(sys.argv[1]) as store:
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        store.commit(when=[Absent(key=f"k{number}")], puts=[Put(key=f"k{number}", value=b"v" * 2000)])
    print("written", flush=True)
    sys.stdin.read()
"""
_CHECKPOINT = """
import resource, signal, sqlite3, sys
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint")
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "copy.db"


async def put(store, key):
    return await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"v")])


async def keys(url):
    store = await connect(url)
    try:
        return [item.key for item in (await store.scan("")).items]
    finally:
        await store.close()


def side(path, end):
    return Path(f"{path}{end}")


def written(url, first, last):
    """Start a member in a process of its own, which goes on when it has written."""
    command = [sys.executable, "-c", _MEMBER, url, str(first), str(last)]
    member = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert b"written\n" == member.stdout.readline()
    return member


def killed(member):
    member.kill()
    member.communicate()


def killed_in_a_checkpoint(path, *, after):
    """Let a process begin a checkpoint, and be killed when it writes beyond so many bytes of the file."""
    command = [sys.executable, "-c", _CHECKPOINT, str(path), str(after)]
    assert -signal.SIGXFSZ == subprocess.run(command, check=False, timeout=60).returncode


def said_restored(url):
    command = [sys.executable, "-m", "apportion.console.main", "store", "restored", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def back_up(source, target):
    with closing(sqlite3.connect(source)) as taken, closing(sqlite3.connect(target)) as made:
        taken.backup(made)


def written_over(copy, path):
    shutil.copyfile(copy, path)


def written_over_with_its_time(copy, path):
    shutil.copy2(copy, path)


def moved(copy, path):
    shutil.copy2(copy, path.with_name("fresh.db")).replace(path)


# Against the procedure


@pytest.mark.slow
@pytest.mark.parametrize("member_is", ["alive", "killed"])
@pytest.mark.parametrize("put_back", [written_over, written_over_with_its_time, moved])
def test_a_copy_beside_an_old_wal_is_refused_unchanged_until_the_procedure_is_followed(
    path, url, copy, put_back, member_is
):
    killed(written(url, 0, 5))
    back_up(path, copy)
    member = written(url, 5, 40)
    try:
        if member_is == "killed":
            killed(member)
        put_back(copy, path)
        code, complaint = said_restored(url)
        assert (1, True) == (code, "-wal belongs to another file" in complaint)
        assert "delete -wal and -shm" in complaint
        assert copy.read_bytes() == path.read_bytes()
    finally:
        killed(member)
    for end in ("-wal", "-shm"):
        side(path, end).unlink()
    put_back(copy, path)
    assert (0, "") == said_restored(url)
    assert [f"k{number}" for number in range(5)] == asyncio.run(keys(url))


@pytest.mark.slow
@pytest.mark.parametrize("put_back", [written_over, moved])
def test_connecting_and_doctor_refuse_it_too(path, url, copy, put_back):
    killed(written(url, 0, 5))
    back_up(path, copy)
    killed(written(url, 5, 40))
    put_back(copy, path)
    with pytest.raises(StoreUnavailable, match="-wal belongs to another file"):
        asyncio.run(connect(url))
    (finding,) = asyncio.run(administration(url).inspect())
    assert ("error", True) == (finding.verdict, "store restored" in finding.advice)
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_the_loop_goes_on_while_it_is_looked_whether_a_checkpoint_explains_a_wal(path, url, copy):
    killed(written(url, 0, 5))
    back_up(path, copy)
    killed(written(url, 5, 40))
    written_over(copy, path)

    async def story():
        turns, opening = 0, asyncio.ensure_future(connect(url))
        while not opening.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert isinstance(opening.exception(), StoreUnavailable)
        return turns

    assert asyncio.run(story()) >= 10  # of about 50


@pytest.mark.slow
def test_a_handle_does_not_open_a_file_that_was_moved_beside_its_wal(path, url, copy):
    async def story():
        store = await connect(url)
        await put(store, "a")
        back_up(path, copy)
        await put(store, "b")
        moved(copy, path)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="-wal belongs to another file"):
                await store.scan("")
            with pytest.raises(StoreWentBack):
                await put(store, "c")
        assert copy.read_bytes() == path.read_bytes()
        for end in ("-wal", "-shm"):
            side(path, end).unlink()
        assert ["a"] == [item.key for item in (await store.scan("")).items]
        assert Committed(revision=2) == await put(store, "c")
        await store.close()

    asyncio.run(story())


# What looks like it and is none


@pytest.mark.slow
def test_a_file_that_a_checkpoint_has_made_younger_than_its_wal_opens(path, url):
    member = written(url, 0, 5)
    try:
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint")
            killed(member)
            assert path.stat().st_mtime_ns >= side(path, "-wal").stat().st_mtime_ns > 0
            shutil.copyfile(side(path, "-wal"), path.with_name("kept"))
    finally:
        killed(member)
    if not side(path, "-wal").exists():  # the last to close has removed it
        path.with_name("kept").rename(side(path, "-wal"))
        os.utime(side(path, "-wal"), (1, 1))
    assert [f"k{number}" for number in range(5)] == asyncio.run(keys(url))


@pytest.mark.slow
def test_a_kill_within_the_tick_of_a_checkpoint_and_a_commit_costs_nothing(path, url):
    killed(written(url, 0, 5))
    at = side(path, "-wal").stat().st_mtime_ns
    os.utime(path, ns=(at, at))
    assert [f"k{number}" for number in range(5)] == asyncio.run(keys(url))


@pytest.mark.slow
@pytest.mark.parametrize("pages", [9, 16, 40])
def test_a_checkpoint_that_was_killed_half_way_costs_nothing(path, url, pages):
    killed(written(url, 0, 40))
    killed_in_a_checkpoint(path, after=4096 * pages)
    assert path.stat().st_mtime_ns >= side(path, "-wal").stat().st_mtime_ns
    assert 4096 * pages == path.stat().st_size
    assert sorted(f"k{number}" for number in range(40)) == sorted(asyncio.run(keys(url)))


@pytest.mark.slow
@pytest.mark.parametrize("put_back", [written_over, moved])
def test_a_copy_beside_the_wal_of_a_checkpoint_that_was_killed_is_refused(path, url, copy, put_back):
    killed(written(url, 0, 5))
    back_up(path, copy)
    killed(written(url, 5, 40))
    killed_in_a_checkpoint(path, after=4096 * 16)
    put_back(copy, path)
    with pytest.raises(StoreUnavailable, match="-wal belongs to another file"):
        asyncio.run(connect(url))
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_a_whole_directory_that_was_copied_after_a_crash_keeps_its_commits(path, tmp_path, url):
    killed(written(url, 0, 5))
    there = tmp_path / "there"
    there.mkdir()
    for each in (path, side(path, "-wal")):
        shutil.copy2(each, there)
    assert [f"k{number}" for number in range(5)] == asyncio.run(keys(f"sqlite:///{there}/store.db"))


@pytest.mark.slow
def test_a_change_of_rights_after_a_crash_does_no_harm(path, url):
    killed(written(url, 0, 5))
    path.chmod(0o600)
    assert [f"k{number}" for number in range(5)] == asyncio.run(keys(url))


# What was restored


def damage(path):
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)


def test_a_damaged_file_is_neither_restored_nor_well(path, url):
    asyncio.run(keys(url))
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="damaged"):
        asyncio.run(administration(url).restored())
    assert before == path.read_bytes()
    found = asyncio.run(administration(url).inspect())
    assert any(each.verdict == "error" and "store restored" in each.advice for each in found)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM meta", "the file is damaged"),
        ("UPDATE meta SET inode = 'x'", "the file is damaged"),
        ("ALTER TABLE lease RENAME TO gone", "the file cannot be read"),
        ("ALTER TABLE item RENAME COLUMN revision TO revisiom", "the file is damaged"),
    ],
)
def test_a_file_without_its_own_rows_is_damaged_whoever_reads_it(statement, told, path, url):
    asyncio.run(keys(url))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)

    async def read():
        await keys(url)
        await administration(url).renewals()

    with pytest.raises(StoreUnavailable, match=told):
        asyncio.run(read())


@pytest.mark.parametrize("content", [None, b""], ids=["absent", "empty"])
def test_what_is_not_there_was_not_restored(path, url, content):
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match="Restore it first"):
        asyncio.run(administration(url).restored())
    assert content == (path.read_bytes() if path.exists() else None)


def test_the_incarnations_that_are_named_are_those_that_members_saw(path, url, copy):
    async def story():
        store = await connect(url)
        first = (await store.scan("")).incarnation
        await store.close()
        back_up(path, copy)
        elsewhere = f"sqlite:///{copy}"
        before, after = await administration(elsewhere).restored()
        assert first == before
        store = await connect(elsewhere)
        assert before < after == (await store.scan("")).incarnation
        await store.close()

    asyncio.run(story())


async def waits(watch):
    """Ask a watch for its next change, and return when it has found none yet and waits to be woken."""
    waiting = asyncio.ensure_future(anext(watch))
    for _ in range(10):
        await asyncio.sleep(0)
    return waiting


@pytest.mark.parametrize("is_said", [True, False])
def test_a_watch_sees_the_first_change_after_a_restore(path, url, copy, is_said):
    async def story():
        store, other = await connect(url), await connect(url)
        await put(other, "a")
        back_up(path, copy)
        first = await store.scan("")
        watch = store.watch("", after=first.revision)
        waiting = await waits(watch)
        await put(other, "b")
        assert 2 == (await asyncio.wait_for(waiting, DEADLINE_SECONDS)).revision
        waiting = await waits(watch)
        back_up(copy, path)
        with pytest.raises(StoreWentBack):
            await asyncio.wait_for(waiting, DEADLINE_SECONDS)
        if is_said:
            await administration(url).restored()
        second = await store.scan("")
        assert 1 == second.revision
        watch = store.watch("", after=second.revision)
        await other.scan("")
        waiting = await waits(watch)
        await put(other, "c")
        assert 2 == (await asyncio.wait_for(waiting, DEADLINE_SECONDS)).revision
        await watch.aclose()
        await other.close()
        await store.close()

    asyncio.run(story())


# Somebody else's


def _empty(path):
    path.touch()


def _text(path):
    path.write_text("these are my notes\n" * 1000)


def _foreign(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE pets (name)")


def _of_the_future(path):
    asyncio.run(keys(f"sqlite:///{path}"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("make", [_empty, _text, _foreign, _of_the_future])
def test_a_file_that_is_no_store_is_refused_unchanged_and_the_watch_goes_on(path, url, tmp_path, make):
    strange = tmp_path / "strange.db"
    make(strange)
    content = strange.read_bytes()

    async def story():
        store = await connect(url)
        await put(store, "a")
        watch = store.watch("", after=1)
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        path.rename(tmp_path / "aside.db")
        strange.rename(path)
        for _ in range(2):
            with pytest.raises(InvalidInput):
                await store.scan("")
            with pytest.raises(StoreWentBack):
                await store.grant(ttl_seconds=5)
        assert content == path.read_bytes()
        path.unlink()
        (tmp_path / "aside.db").rename(path)
        waiting = asyncio.ensure_future(anext(watch))
        await store.scan("")
        assert Committed(revision=2) == await put(store, "b")
        assert 2 == (await asyncio.wait_for(waiting, DEADLINE_SECONDS)).revision
        await watch.aclose()
        await store.close()

    asyncio.run(story())
