"""Identifiers: their parts, their order, and values that are none."""

import os
from concurrent.futures import ThreadPoolExecutor
from uuid import NAMESPACE_DNS, RFC_4122, UUID, uuid4, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import shards
from apportion.errors import InvalidInput
from apportion.shards.identifiers import identifiers
from apportion.shards.identifiers.identifiers import Identifiers
from apportion.shards.slots import MOST_SLOTS

slots = st.integers(0, MOST_SLOTS - 1)
times = st.integers(0, 2**48 - 2)
TAIL = 2**60 - 1


def of(times, *bits):
    """Return identifiers with a clock that shows these times, and with these random numbers."""
    times, bits = iter(times), iter(bits)
    return Identifiers(lambda: next(times), lambda _: next(bits))


def milliseconds(identifier):
    return identifier.int >> 80


@given(slots, times.filter(bool), st.integers(0, TAIL))
def test_an_identifier_carries_its_time_its_slot_and_its_random_bits(slot, now, tail):
    made = of([now], 0, 0, tail).new(slot)
    assert (slot, now, tail) == (shards.slot_of(made), milliseconds(made), made.int & TAIL)
    assert (8, RFC_4122) == (made.version, made.variant)


def test_the_parts_lie_where_the_standard_puts_those_of_version_8():
    made = of([0x0193754A1C00], 0, 0, 0x123456789ABCDEF).new(4094)
    assert UUID("0193754a-1c00-83ff-a123-456789abcdef") == made


@given(st.lists(st.tuples(times, slots), min_size=2, max_size=20, unique_by=lambda each: each[0]))
def test_identifiers_sort_by_their_milliseconds(wanted):
    wanted = sorted(wanted)
    made = [Identifiers(lambda now=now: now, identifiers.randbits).new(slot) for now, slot in wanted]
    assert [now for now, _ in wanted[1:]] == [milliseconds(each) for each in sorted(made)[1:]]


@given(st.lists(times, min_size=1, max_size=40), slots)
def test_identifiers_of_a_slot_grow_also_if_the_clock_stops_or_goes_back(clock, slot):
    shown = iter(clock)
    made = Identifiers(lambda: next(shown), identifiers.randbits)
    found = [made.new(slot) for _ in clock]
    assert sorted({*found}) == found


def test_a_millisecond_without_room_is_followed_by_the_next_one():
    made = of([5, 5, 5, 6], 0, 0, TAIL - 1, 0, 0, 7, 0, 0)
    found = [made.new(3) for _ in range(4)]
    assert [(5, TAIL - 1), (5, TAIL), (6, 7), (6, 8)] == [(milliseconds(each), each.int & TAIL) for each in found]


def test_threads_get_no_equal_identifiers_and_each_sees_them_grow():
    with ThreadPoolExecutor(max_workers=4) as threads:
        found = [*threads.map(lambda slot: [shards.new_id(slot) for _ in range(2_000)], [1, 1, 2, 2])]
    assert 8_000 == len({each for part in found for each in part})
    assert found == [sorted(part) for part in found]


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent():
    with identifiers._of_process[0]._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if identifiers._of_process[0]._lock.acquire(timeout=1) else 1)
    assert 0 == os.waitpid(child, 0)[1]


@pytest.mark.parametrize("slot", [-1, MOST_SLOTS, True, 1.0, "1", None])
def test_a_slot_that_no_set_can_have_is_refused(slot):
    with pytest.raises(InvalidInput, match=r"^slot is .*, expected an int in 0 \.\. 16383"):
        shards.new_id(slot)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (uuid5(NAMESPACE_DNS, "apportion"), r"'[-0-9a-f]{36}'"),
        (UUID(int=uuid4().int | 0xF << 76), r"'[-0-9a-f]{36}'"),
        (UUID(int=0), "'00000000-0000-0000-0000-000000000000'"),
        (UUID("0193754a-1c00-83ff-c123-456789abcdef"), "'0193754a-1c00-83ff-c123-456789abcdef'"),
        ("0193754a-1c00-83ff-a123-456789abcdef", "'0193754a-1c00-83ff-a123-456789abcdef'"),
        (7, "7"),
        (None, "None"),
    ],
)
def test_a_value_that_is_no_identifier_is_refused(value, found):
    with pytest.raises(InvalidInput, match=f"^identifier is {found}, expected a UUID of version 8"):
        shards.slot_of(value)
