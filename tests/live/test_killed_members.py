"""Members that are killed without warning: their leases end, and nobody else's does. How soon: see `bench`."""

import asyncio

import pytest

from bench.leases import ended_after_kills
from tests.stores.rigs import rig_of

pytestmark = pytest.mark.live
TTL_SECONDS = 2.0
SLACK_SECONDS = 10  # of a machine that is busy


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_killed_members_lease_ends_and_no_other_does(name):
    rig = rig_of(name)()
    try:
        ended = asyncio.run(ended_after_kills(rig.url("killed"), members=12, kills=3, ttl_seconds=TTL_SECONDS))
    finally:
        asyncio.run(rig.close())
    assert [] == ended.false
    assert all(0.9 < seconds < TTL_SECONDS + SLACK_SECONDS for seconds in ended.after_seconds)
