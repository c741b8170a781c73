"""The suites of a shard and a channel, on two databases of a PostgreSQL server."""

from functools import partial

import pytest

from apportion.shards.postgres.replication.channel import NativeChannel
from apportion.sim.conformance.shards.plugin import certify_shards
from tests.shards.postgres_rig import ServerShardRig

pytestmark = pytest.mark.live


@pytest.fixture(scope="module", autouse=True)
def server():
    yield
    ServerShardRig.stop()


TestServerShards = certify_shards(ServerShardRig)
TestNativeChannels = certify_shards(partial(ServerShardRig, NativeChannel), has_log=False)
