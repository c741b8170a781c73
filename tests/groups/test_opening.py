"""Options: the least and the most of each is taken as it is said, and the next beyond is refused by its name."""

from datetime import timedelta

import pytest

from apportion.errors import InvalidInput
from apportion.groups.opening import Opening
from apportion.groups.view.records import MAX_LABELS

MICROSECOND, WEEK = timedelta(microseconds=1), timedelta(days=7)
STATIC = {"static": True, "member_id": "a"}


def options(**said):
    return Opening("memory://", "g", **{"partitions": 4, "member_id": "a"} | said).options


@pytest.mark.parametrize(
    ("name", "field", "taken", "refused"),
    [
        ("lease_ttl", "ttl_seconds", [MICROSECOND, WEEK], [timedelta(0), -MICROSECOND, WEEK + MICROSECOND, 10, None]),
        ("drain_timeout", "drain_seconds", [MICROSECOND, WEEK], [timedelta(0), WEEK + MICROSECOND, 1.0]),
        ("progress_deadline", "progress_seconds", [MICROSECOND, WEEK], [timedelta(0), WEEK + MICROSECOND, 1]),
        ("settle", "settle_seconds", [timedelta(0), WEEK], [-MICROSECOND, WEEK + MICROSECOND, 2, None]),
    ],
)
def test_a_time_is_taken_up_to_a_week(name, field, taken, refused):
    assert [each.total_seconds() for each in taken] == [getattr(options(**{name: each}), field) for each in taken]
    for each in refused:
        with pytest.raises(InvalidInput, match=rf"^{name} is .* a timedelta .* 0, at most a week"):
            options(**{name: each})


def test_a_grace_is_taken_up_to_a_week_and_by_default_a_minute_for_static_members_alone():
    graces = [options(**STATIC, rejoin_grace=each).member.grace_seconds for each in (MICROSECOND, WEEK, None)]
    assert [1e-6, 604_800.0, 60.0] == graces
    assert 0.0 == options().member.grace_seconds
    for each in (timedelta(0), WEEK + MICROSECOND):
        with pytest.raises(InvalidInput, match=r"^rejoin_grace is"):
            options(**STATIC, rejoin_grace=each)


@pytest.mark.parametrize("taken", [None, 1, 9])
def test_a_quarantine_begins_after_one_to_nine_deaths(taken):
    assert taken == options(quarantine_after=taken).record.quarantine_after


@pytest.mark.parametrize("refused", [0, -1, 10, True, 2.0, "3"])
def test_a_quarantine_after_more_deaths_than_a_record_lists_is_refused(refused):
    with pytest.raises(InvalidInput, match=r"^quarantine_after is .* an int in 1 \.\. 9, or None"):
        options(quarantine_after=refused)


def test_a_throttle_is_of_at_least_one_move():
    assert [None, 1] == [options(throttle=each).throttle for each in (None, 1)]
    for each in (0, -1, True, 1.0):
        with pytest.raises(InvalidInput, match=r"^throttle is .* at least 1, or None"):
            options(throttle=each)


def test_labels_are_as_many_as_a_record_takes():
    most = {f"name-{number}": "value" for number in range(MAX_LABELS)}
    assert most == options(labels=most).member.labels
    with pytest.raises(InvalidInput, match=rf"^labels is {MAX_LABELS + 1}, expected at most {MAX_LABELS} of them"):
        options(labels=most | {"one": "more"})
    for each in ({"a": 1}, {1: "a"}, {"a": "\ud800"}, {"\ud800": "a"}, ["a"], "a=b"):
        with pytest.raises(InvalidInput, match=r"^labels is .* a mapping of str to str"):
            options(labels=each)


def test_a_static_member_needs_an_id_that_it_keeps(monkeypatch):
    monkeypatch.delenv("APPORTION_MEMBER_ID", raising=False)
    with pytest.raises(InvalidInput, match=r"^member_id is None, expected an id that is the same after a restart"):
        options(static=True, member_id=None)
    monkeypatch.setenv("APPORTION_MEMBER_ID", "pod-3")
    assert ("pod-3", True) == (options(static=True, member_id=None).member_id, options(**STATIC).is_static)
