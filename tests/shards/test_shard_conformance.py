"""The suites of a shard and a channel: SQLite files with a write-ahead log and without one, and shards of a world."""

from functools import partial

import pytest

from apportion.sim.conformance.shards.plugin import certify_shards
from tests.shards.memory_rig import MemoryRig
from tests.shards.sqlite_rig import SqliteRig

TestSqliteShards = certify_shards(SqliteRig)
TestSqliteShardsWithoutWal = pytest.mark.slow(certify_shards(partial(SqliteRig, "delete")))
TestShardsOfAWorld = certify_shards(MemoryRig)
