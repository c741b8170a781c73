"""A mover and a migration exclude each other on a shard, also if the control store does not know of it."""

import asyncio
import os
import subprocess
import sys

import pytest

from apportion.errors import StoreUnavailable
from apportion.model.epoch import FencingToken
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
