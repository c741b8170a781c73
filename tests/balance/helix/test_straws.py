"""Lengths of straws are Helix's: those that its loop gives with real floats of 32 bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance.helix.straws import Straws, straw_lengths


def lengths_in_floats(weights):
    """Return the lengths of straws by the loop of Helix, written as it is there; weights from heavy to light."""
    f32 = np.float32
    straw, below, last, left, lengths = f32(1), f32(0), f32(0), len(weights), []
    for place, weight in enumerate(weights):
        lengths.append(int(straw * f32(0x10000)) if weight else 0)
        rest = weights[place + 1 :]
        if not rest or rest[0] == 0 or rest[0] == weight:
            continue
        below = f32(below + f32(f32(f32(weight) - last) * f32(left)))
        left -= rest.count(rest[0])
        after = f32(left * (rest[0] - weight))
        share = f32(below / f32(below + after))
        straw = f32(np.float64(straw) * np.float64(1.0 / float(share)) ** np.float64(1.0 / left))
        last = f32(weight)
    return lengths


weights = st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 5000), min_size=1, max_size=12)


@given(weights)
def test_lengths_are_those_of_floats_of_32_bits(drawn):
    drawn = sorted(drawn, reverse=True)
    assert lengths_in_floats(drawn) == list(straw_lengths(drawn))


def test_lengths_are_rounded_at_every_step():
    # Without that, some of many would differ in their last bit.
    many = [sorted((7919 * number * place % 4999 + 1 for place in range(1, 9)), reverse=True) for number in range(2000)]
    assert [lengths_in_floats(each) for each in many] == [list(straw_lengths(each)) for each in many]


@given(weights)
def test_a_heavier_child_has_no_shorter_straw_and_one_that_is_out_has_none(drawn):
    names = [f"n{number}" for number in range(len(drawn))]
    straws = Straws.of(names, drawn)
    ranked = sorted(zip(drawn, straws.lengths, strict=True))
    assert [length for _, length in ranked] == sorted(length for _, length in ranked)
    assert all((weight == 0) == (length == 0) for weight, length in ranked)
    assert straws == Straws.of(names, [1] * len(names)).weighing(drawn)
