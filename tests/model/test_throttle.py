"""A throttle limits something or nothing, and says until when."""

import pickle
from dataclasses import FrozenInstanceError

import pytest

from apportion import Throttle
from apportion.errors import InvalidInput

NIGHT = Throttle(per_node=8, expires_at=100, then=Throttle(per_node=4, expires_at=200.5, then=Throttle(per_zone=1)))


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize("field", ["per_node", "per_zone", "per_cluster", "per_node_bytes"])
def test_a_limit_that_nothing_could_pass_is_refused(field, limit):
    with pytest.raises(InvalidInput, match=f"{field} of the throttle is .* expected an int of at least 1, or None"):
        Throttle(**{field: limit})


@pytest.mark.parametrize("time", ["18:00", float("nan"), float("inf"), True, [1]])
def test_a_time_is_a_finite_number_of_seconds(time):
    with pytest.raises(InvalidInput, match=r"expires_at of the throttle is .*, expected a finite number of seconds"):
        Throttle(expires_at=time)
    with pytest.raises(InvalidInput, match=r"now is .*, expected a finite number of seconds"):
        Throttle().at(time)


@pytest.mark.parametrize(("now", "limits"), [(-1, (8, None)), (99.9, (8, None)), (100, (4, None)), (200.5, (None, 1))])
def test_each_throttle_gives_way_to_the_next_when_it_expires(now, limits):
    throttle = NIGHT.at(now)
    assert limits == (throttle.per_node, throttle.per_zone)


def test_nothing_is_limited_after_a_throttle_that_nothing_follows():
    assert Throttle() == Throttle(per_node=1, expires_at=0).at(0)


def test_a_throttle_that_never_expires_needs_no_time():
    assert Throttle(per_node=1) == Throttle(per_node=1).at(None) == Throttle(per_node=1).at(1e12)


def test_one_that_expires_does():
    with pytest.raises(InvalidInput, match="now is None, expected the time in seconds, because the throttle expires"):
        NIGHT.at(None)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"then": 2, "expires_at": 1}, "then of the throttle is 2, expected a Throttle, or None for no limit"),
        ({"then": Throttle()}, "expires_at of the throttle is None, expected a time, because `then` follows it"),
        ({"then": Throttle(expires_at=5), "expires_at": 5}, "in then is 5, expected later than 5"),
    ],
)
def test_what_follows_is_a_throttle_and_later(fields, problem):
    with pytest.raises(InvalidInput, match=problem):
        Throttle(**fields)


@pytest.mark.parametrize(
    ("throttle", "text"),
    [
        (Throttle(), "no limit"),
        (Throttle(expires_at=9), "no limit, until 9"),
        (Throttle(per_node=1, per_zone=2), "at most 1 copies per node, 2 copies per zone"),
        (Throttle(per_cluster=3, per_node_bytes=4), "at most 3 copies in all, 4 bytes per node"),
        (Throttle(per_node=3, expires_at=5.5), "at most 3 copies per node, until 5.5"),
    ],
)  # fmt: skip
def test_a_throttle_says_what_it_limits(throttle, text):
    assert text == str(throttle)


def test_a_throttle_is_a_value():
    assert NIGHT == pickle.loads(pickle.dumps(NIGHT))
    assert 1 == len({Throttle(per_node=1), Throttle(per_node=1)})
    with pytest.raises(FrozenInstanceError):
        NIGHT.per_node = 3
