"""How long the PostgreSQL store may be silent, by the leases that this process keeps alive."""

import pytest

from apportion.stores.postgres.door import REQUEST_SECONDS
from apportion.stores.postgres.leases import Leases


def leases(*ttls):
    made = Leases()
    for number, ttl in enumerate(ttls, 1):
        made.add(number, ttl)
    return made


@pytest.mark.parametrize(
    ("ttls", "reply", "commit", "lock"),
    [
        ((), REQUEST_SECONDS, REQUEST_SECONDS, int(800 * REQUEST_SECONDS)),
        ((4.0,), 1.0, 1.0, 800),
        ((4.0, 6.0), 1.0, 1.0, 800),
        ((1.2,), 0.3, 0.5, 400),
        ((0.4,), 0.25, 0.5, 400),
        ((600.0,), REQUEST_SECONDS, REQUEST_SECONDS, int(800 * REQUEST_SECONDS)),
    ],
)
def test_no_reply_is_awaited_for_longer_than_a_quarter_of_the_shortest_lease(ttls, reply, commit, lock):
    made = leases(*ttls)
    assert pytest.approx((reply, commit)) == (made.patience(), made.commit_patience())
    assert lock == made.lock_milliseconds


def test_a_lease_that_has_ended_bounds_nothing():
    made = leases(4.0, 8.0)
    assert ({1, 2}, 4.0) == (set(made.ids), made.shortest_seconds)
    made.forget([1, 3])
    assert ({2}, 8.0, 2.0) == (set(made.ids), made.shortest_seconds, made.patience())
    made.forget([2])
    assert (10.0, REQUEST_SECONDS) == (made.shortest_seconds, made.patience())
