"""Logarithms in integers, so that no maths library ever decides an owner.

Promises: the same number on every machine. The order is kept: a larger value has no smaller logarithm, because every
step is an integer square rounded down.
Refuses: values outside 1 .. 2**64.
Source: the bit-by-bit method; Knuth, The Art of Computer Programming, volume 1, section 1.2.2, exercise 25.
"""

FRACTION_BITS = 48


def log2_fixed(value: int) -> int:
    """Return log2(value) in units of 2**-48, rounded down, for 1 <= value <= 2**64.

    Squaring a number doubles its logarithm, so each turn shifts one more bit of the logarithm in front of the point.
    No intermediate value is above 2**126. The error is below 2**-47. O(FRACTION_BITS).

    >>> log2_fixed(8) / 2**FRACTION_BITS, round(log2_fixed(10) / 2**FRACTION_BITS, 12)
    (3.0, 3.321928094887)
    """
    logarithm = value.bit_length() - 1
    mantissa = (value << 62) >> logarithm  # in [1, 2), in units of 2**-62
    for _ in range(FRACTION_BITS):
        mantissa = mantissa * mantissa >> 62
        bit = mantissa >> 63
        mantissa >>= bit
        logarithm = logarithm << 1 | bit
    return logarithm
