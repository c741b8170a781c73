"""Members of one SQLite file that are killed without warning: their leases end in time, and nobody else's does."""

import pytest

from bench.leases import ended_after_kills

TTL_SECONDS = 2.0


@pytest.mark.live
def test_a_killed_members_lease_ends_in_time_and_no_other_does(tmp_path):
    ended = ended_after_kills(f"sqlite:///{tmp_path / 'store.db'}", members=12, kills=4, ttl_seconds=TTL_SECONDS)
    print(f"\nlease ended after kill -9, sqlite: {max(ended.after_seconds):.2f} s latest of {len(ended.after_seconds)}")
    assert [] == ended.false
    assert 4 == len(ended.after_seconds)
    assert max(ended.after_seconds) <= TTL_SECONDS + 0.3
