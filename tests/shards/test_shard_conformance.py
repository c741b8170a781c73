"""The suites of a shard and a channel, against SQLite files with a write-ahead log and without one."""

from functools import partial

import pytest

from apportion.sim.conformance.shards.plugin import certify_shards
from tests.shards.sqlite_rig import SqliteRig

TestSqliteShards = certify_shards(SqliteRig)
TestSqliteShardsWithoutWal = pytest.mark.slow(certify_shards(partial(SqliteRig, "delete")))
