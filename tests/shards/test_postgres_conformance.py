"""The suites of a shard and a channel, on two databases of a PostgreSQL server."""

import pytest

from apportion.sim.conformance.shards.plugin import certify_shards
from tests.shards.postgres_rig import ServerShardRig

pytestmark = pytest.mark.live


@pytest.fixture(scope="module", autouse=True)
def server():
    yield
    ServerShardRig.stop()


TestServerShards = certify_shards(ServerShardRig)
