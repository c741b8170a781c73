"""The checker accepts a sound history, and rejects hand-made ones that each break one promise."""

import pytest

from apportion.shards.replicas.version import NOTHING, EntryVersion
from apportion.sim.replicas.checker import broken_promises
from apportion.sim.replicas.history import GetSpan, MapHistory, PutSpan


def v(number):
    return EntryVersion(milliseconds=number) if number else NOTHING


def put(begin, end, number, value=b"", *, key=b"k", earlier=()):
    sent = [v(each) for each in (*earlier, number)]
    acknowledged = None if end is None else v(number)
    value = f"{number}".encode() if value == b"" else value
    return PutSpan(key=key, begin=begin, end=end, value=value, versions=sent, acknowledged=acknowledged)


def get(begin, end, number, value=b"", *, key=b"k"):
    value = (f"{number}".encode() if number else None) if value == b"" else value
    return GetSpan(key=key, begin=begin, end=end, shown=v(number), value=value)


def history(*spans):
    puts = [each for each in spans if isinstance(each, PutSpan)]
    return MapHistory(puts=puts, gets=[each for each in spans if isinstance(each, GetSpan)])


SOUND = {
    "a get sees the put before it": (put(0, 1, 5), get(2, 3, 5)),
    "a get beside a put may see either": (put(0, 1, 5), put(2, 6, 7), get(3, 4, 7), get(4.5, 5, 7)),
    "a get beside a put may miss it": (put(0, 1, 5), put(2, 6, 7), get(3, 4, 5)),
    "a put without an end may be seen at any time": (put(0, None, 5), get(2, 3, 0), get(8, 9, 5)),
    "a put that was sent again may be seen under each version": (
        put(0, 9, 7, b"x", earlier=[5]), get(2, 3, 5, b"x"), get(10, 11, 7, b"x")
    ),
    "a deletion shows nothing, under its version": (put(0, 1, 5), put(2, 3, 7, None), get(4, 5, 7, None)),
    "two keys owe each other nothing": (put(0, 1, 9, key=b"a"), put(2, 3, 5, key=b"b"), get(4, 5, 5, key=b"b")),
}  # fmt: skip
BAD = {
    "an acknowledged put is not seen": (1, (put(0, 1, 5), put(2, 3, 7), get(4, 5, 5))),
    "a get shows nothing after an acknowledged put": (1, (put(0, 1, 5), get(2, 3, 0))),
    "a deleted value comes back": (1, (put(0, 1, 5), put(2, 3, 7, None), get(4, 5, 5))),
    "the second of two gets goes back": (2, (put(0, 1, 5), put(2, 9, 7), get(3, 4, 7), get(5, 6, 5))),
    "a get goes back behind an unacknowledged put": (2, (put(0, None, 5), get(1, 2, 5), get(3, 4, 0))),
    "a later put has a lower version": (3, (put(0, 1, 7), put(2, 3, 5))),
    "a version is shown that nobody sent": (4, (put(0, None, 5), get(2, 3, 6))),
    "a version is shown with another value": (4, (put(0, 1, 5), get(2, 3, 5, b"other"))),
    "a version is shown before it was sent": (4, (get(0, 1, 5), put(2, 3, 5))),
    "two puts share a version": (4, (put(0, None, 5, b"x"), put(2, None, 5, b"y"))),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_is_accepted(name):
    assert [] == broken_promises(history(*SOUND[name]))


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_breaks_one_promise_is_rejected_by_its_number(name):
    promise, spans = BAD[name]
    assert {promise} == {each.promise for each in broken_promises(history(*spans))}


def test_a_history_of_a_hundred_thousand_calls_is_checked_in_one_pass():
    spans = [
        each
        for number in range(1, 50_001)
        for each in (put(2 * number, 2 * number + 0.5, number), get(2 * number + 1, 2 * number + 1.5, number))
    ]
    assert [] == broken_promises(history(*spans))
    spans[-1].shown, spans[-1].value = v(49_998), b"49998"
    assert [1, 2] == [each.promise for each in broken_promises(history(*spans))]
