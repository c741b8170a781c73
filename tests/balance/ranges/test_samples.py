"""Reservoirs sample each key equally often; windows keep the peaks of six spans of time; limits refuse bad values."""

from collections import Counter
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance.ranges import KeyReservoir, PeakWindows, RangeLimits
from apportion.errors import BadRange, InvalidInput


def test_each_key_of_the_stream_is_equally_likely():
    found = Counter()
    for seed in range(2000):
        reservoir = KeyReservoir(5, Random(seed))
        for number in range(20):
            reservoir.add(number)
        assert (5, 20) == (len(reservoir.keys), reservoir.seen)
        found.update(reservoir.keys)
    assert all(400 <= count <= 600 for count in found.values())
    assert 20 == len(found)


def test_the_same_seed_gives_the_same_sample():
    samples = []
    for _ in range(2):
        reservoir = KeyReservoir(8, Random(3))
        for number in range(100):
            reservoir.add(b"%d" % number)
        samples.append(reservoir.keys)
    assert samples[0] == samples[1]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: KeyReservoir(0, Random(1)), InvalidInput),
        (lambda: KeyReservoir(2**16 + 1, Random(1)), InvalidInput),
        (lambda: KeyReservoir(5, 7), InvalidInput),
        (lambda: KeyReservoir(5, Random(1)).add("text"), BadRange),
        (lambda: PeakWindows(window_seconds=0), InvalidInput),
        (lambda: PeakWindows(number=-1), InvalidInput),
        (lambda: PeakWindows(values=(1,) * 7), InvalidInput),
        (lambda: PeakWindows(values=[1]), InvalidInput),
        (lambda: PeakWindows(values=(1.5,)), InvalidInput),
        (lambda: PeakWindows().seen(-1, now=0), InvalidInput),
        (lambda: RangeLimits(split_bytes=1), InvalidInput),
        (lambda: RangeLimits(split_requests=0), InvalidInput),
        (lambda: RangeLimits(least_age_seconds=-1), InvalidInput),
        (lambda: RangeLimits(most_in_flight=0), InvalidInput),
        (lambda: RangeLimits(tolerance=1), InvalidInput),
        (lambda: RangeLimits(tolerance=0), InvalidInput),
    ],
)
def test_a_bad_value_is_refused(make, kind):
    with pytest.raises(kind):
        make()


def test_a_window_keeps_its_peak_and_the_seventh_pushes_out_the_first():
    peaks = PeakWindows(window_seconds=10)
    for number in range(7):
        peaks = peaks.seen(number, now=10 * number).seen(100 + number, now=10 * number + 5).seen(0, now=10 * number + 9)
    assert (101, 102, 103, 104, 105, 106) == peaks.values
    assert peaks.is_complete


def test_a_window_without_a_sample_begins_the_count_anew():
    peaks = PeakWindows(window_seconds=10).seen(5, now=0).seen(6, now=10)
    assert ((5, 6, 7), (7,)) == (peaks.seen(7, now=29).values, peaks.seen(7, now=30).values)


def test_time_that_goes_back_is_refused():
    with pytest.raises(InvalidInput, match="now is 9"):
        PeakWindows(window_seconds=10).seen(5, now=10).seen(5, now=9)


@given(st.lists(st.integers(0, 10**6), max_size=6), st.fractions(0, 1))
def test_the_parts_of_a_peak_never_sum_up_to_less(values, ratio):
    peaks = PeakWindows(values=tuple(values))
    parts = peaks.scaled(ratio).plus(peaks.scaled(1 - ratio))
    assert all(0 <= part - whole <= 1 for part, whole in zip(parts.values, values, strict=True))


def test_peaks_of_other_times_have_no_sum():
    peaks = PeakWindows(values=(5, 6))
    assert (7, 8) == peaks.plus(PeakWindows(values=(1, 2, 2))).values
    assert () == peaks.plus(PeakWindows(number=1, values=(1, 2))).values
    assert (2, 3) == peaks.scaled(Fraction(2, 5)).values
