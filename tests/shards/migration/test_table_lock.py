"""A mover and a migration exclude each other on a shard, also if the control store does not know of it."""

import asyncio
import fcntl
import os
import subprocess
import sys
from datetime import timedelta
from errno import ENOLCK, ENOSPC
from pathlib import Path

import pytest

from apportion.errors import StoreDenied, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.sqlite import table_lock
from apportion.shards.sqlite.file import ShardPath
from apportion.shards.sqlite.shard import SqliteShard
from tests.shards.sample import SET, Files

HOLDER = """
import sys
from pathlib import Path
from apportion.shards.sqlite.table_lock import table_lock
with table_lock(Path(sys.argv[1]), "shard one"):
    print("held", flush=True)
    sys.stdin.read()
"""
FORKING = """
import os, sys, time
from pathlib import Path
from apportion.shards.sqlite.table_lock import FileLock
lock = FileLock(Path(sys.argv[1]), "shard one", is_shared=True)
if not os.fork():
    lock.release()
    print(os.getpid(), flush=True)
    time.sleep(60)
sys.stdin.read()
"""
GROUP = MoveGroup(move="m1", source="one", target="two", slots=(1,))
TOKEN = FencingToken(resource="x", holder="h", incarnation=1, epoch=1)


def guarded(shard):
    asyncio.run(shard.guard(GROUP, TOKEN))


@pytest.fixture
def place(tmp_path):
    Files(tmp_path)
    return ShardPath(set_name=SET, shard="one", path=tmp_path / "one.db")


def test_a_mover_waits_for_a_migration_and_a_kill_releases_its_lock(place):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        shard = SqliteShard(place)
        with pytest.raises(StoreUnavailable, match="shard one is unavailable: a migration changes its tables"):
            guarded(shard)
    finally:
        holder.kill()
        holder.communicate()
    guarded(shard)
    asyncio.run(shard.close())


def test_a_migration_is_refused_while_a_mover_has_the_shard_open(place):
    shard = SqliteShard(place)
    guarded(shard)
    refused = pytest.raises(StoreUnavailable, match="a mover or another migration works on it")
    with refused, table_lock.table_lock(place.path, "shard one", within_seconds=0):
        pass
    asyncio.run(shard.close())
    with table_lock.table_lock(place.path, "shard one", within_seconds=0):
        pass


def descriptors():
    return len([*Path("/proc/self/fd").iterdir()])


def held_alone(place):
    """Take the lock alone, and release it."""
    with table_lock.table_lock(place.path, "shard one", within_seconds=0):
        pass


def test_a_forked_child_neither_ends_the_lock_of_its_parent_nor_keeps_it(place):
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, "-c", FORKING, str(place.path)], stdin=pipe, stdout=pipe, env=os.environ)
    child = int(parent.stdout.readline())
    try:
        with pytest.raises(StoreUnavailable, match="a mover or another migration works on it"):
            held_alone(place)
        parent.kill()
        parent.wait()
        held_alone(place)
    finally:
        os.kill(child, 9)
        parent.kill()
        parent.communicate()


def test_all_links_to_a_database_have_one_lock(place, tmp_path):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "other.db"
    link.symlink_to(place.path)
    lock = table_lock.FileLock(link, "shard one", is_shared=True)
    assert tmp_path / "one.db-apportion" == lock.place
    with pytest.raises(StoreUnavailable):
        held_alone(place)
    lock.release()
    held_alone(place)


def test_the_file_of_a_lock_has_the_rights_of_its_database(place):
    """Otherwise a migration by one user would lock out the movers of another one."""
    place.path.chmod(0o664)
    before = os.umask(0o077)
    try:
        held_alone(place)
    finally:
        os.umask(before)
    assert 0o664 == (place.path.parent / "one.db-apportion").stat().st_mode & 0o777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")
def test_the_file_of_a_lock_that_root_makes_belongs_to_the_owner_of_its_database(place):
    os.chown(place.path, 65534, 65534)
    held_alone(place)
    found = (place.path.parent / "one.db-apportion").stat()
    assert (65534, 65534) == (found.st_uid, found.st_gid)


def test_a_mover_takes_its_lock_again_after_the_file_was_deleted(place):
    shard, file = SqliteShard(place), place.path.parent / "one.db-apportion"
    guarded(shard)
    file.unlink()
    guarded(shard)
    with pytest.raises(StoreUnavailable, match="a mover or another migration works on it"):
        held_alone(place)
    asyncio.run(shard.close())
    held_alone(place)


def test_a_lock_of_a_file_that_was_deleted_meanwhile_does_not_count(place, monkeypatch):
    file, lock = place.path.parent / "one.db-apportion", fcntl.flock

    def late(descriptor, mode):
        file.unlink(missing_ok=True)
        lock(descriptor, mode)

    opened = descriptors()
    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(StoreUnavailable, match="another file is at"):
        table_lock.FileLock(place.path, "shard one", is_shared=True)
    monkeypatch.undo()
    assert opened == descriptors()
    held_alone(place)


def test_a_link_in_the_place_of_a_lock_is_denied_and_not_followed(place, tmp_path):
    (tmp_path / "one.db-apportion").symlink_to(tmp_path / "absent")
    with pytest.raises(StoreDenied, match=r"one\.db-apportion: it is a link, and not a file") as denied:
        table_lock.FileLock(place.path, "shard one", is_shared=True)
    assert "read this file, and to write its folder" in denied.value.hint
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(("call", "number"), [((os, "open"), ENOSPC), ((fcntl, "flock"), ENOLCK)])
def test_an_error_of_the_system_is_told_and_may_pass(place, monkeypatch, call, number):
    """On a full disk, a mover waits. It does not end."""

    def fails(file, *_):
        raise OSError(number, os.strerror(number), None if isinstance(file, int) else file)

    opened = descriptors()
    monkeypatch.setattr(*call, fails)
    with pytest.raises(StoreUnavailable, match=rf"one\.db-apportion: {os.strerror(number)}"):
        table_lock.FileLock(place.path, "shard one", is_shared=True)
    monkeypatch.undo()
    assert opened == descriptors()


def test_the_lock_of_an_absent_database_makes_no_file(tmp_path):
    with pytest.raises(StoreUnavailable, match=r"absent\.db: No such file or directory"):
        table_lock.FileLock(tmp_path / "absent.db", "shard one", is_shared=True)
    assert [] == list(Path(tmp_path).iterdir())


@pytest.mark.parametrize("is_held", [False, True])
def test_the_lock_of_a_file_goes_with_its_shard_unless_another_process_holds_it(tmp_path, is_held):
    files = Files(tmp_path)
    asyncio.run(admin.drain(files.url, SET, "two"))
    asyncio.run(admin.clean(files.url, SET, soak=timedelta(0)))
    assert ["one.db-apportion", "two.db-apportion"] == sorted(each.name for each in tmp_path.glob("*-apportion"))
    lock = table_lock.FileLock(tmp_path / "two.db", "shard two", is_shared=True) if is_held else None
    asyncio.run(admin.remove(files.url, SET, "two"))
    assert {True, is_held} == {(tmp_path / "one.db-apportion").exists(), (tmp_path / "two.db-apportion").exists()}
    if lock is not None:
        lock.release()
