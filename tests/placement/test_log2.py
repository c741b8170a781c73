"""Logarithms in fixed point are those of exact mathematics, rounded down, and never out of order."""

import ast
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion
from apportion.placement.shapes.log2 import FRACTION_BITS, log2_fixed

SOURCE = Path(apportion.__file__).parent

values = st.one_of(
    st.integers(1, 2**64),
    st.builds(lambda bits, near: min(2**64, max(1, 2**bits + near)), st.integers(0, 64), st.integers(-3, 3)),
)


def exact(value):
    """Return log2(value) in units of 2**-48, to 60 digits."""
    with localcontext(prec=60):
        return Decimal(value).ln() / Decimal(2).ln() * 2**FRACTION_BITS


@given(values)
def test_a_logarithm_is_the_exact_one_rounded_down(value):
    error = exact(value) - log2_fixed(value)
    assert Decimal("-1e-30") <= error < 2, f"{error} units of 2**-48 too small"


@pytest.mark.parametrize("bits", range(65))
def test_a_power_of_two_is_exact(bits):
    assert bits << FRACTION_BITS == log2_fixed(2**bits)


@given(values, values)
def test_a_larger_value_has_no_smaller_logarithm(one, other):
    smaller, larger = sorted((one, other))
    assert log2_fixed(smaller) <= log2_fixed(larger)


@given(st.integers(1, 2**64 - 1))
def test_the_next_value_has_no_smaller_logarithm(value):
    assert log2_fixed(value) <= log2_fixed(value + 1)


class Watched(int):
    """An integer whose results remember the largest there was."""

    largest = 0


def _watched(name):
    def operate(self, other):
        result = Watched(getattr(int(self), name)(int(other)))
        Watched.largest = max(Watched.largest, result)
        return result

    return operate


for _name in ("__lshift__", "__rshift__", "__mul__", "__or__", "__ror__"):
    setattr(Watched, _name, _watched(_name))


@given(values)
def test_no_intermediate_value_is_above_2_to_the_126(value):
    Watched.largest = 0
    assert log2_fixed(value) == log2_fixed(Watched(value))
    assert 2**61 < Watched.largest <= 2**126


def test_no_file_of_the_pure_rooms_imports_a_maths_library():
    imported = {
        (path.name, name.split(".")[0])
        for room in ("model", "placement", "balance")
        for path in (SOURCE / room).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imported(node)
    }
    assert [] == [(file, name) for file, name in sorted(imported) if name in ("math", "cmath", "numpy", "decimal")]
    assert ("slots.py", "fractions") in imported, "the scan sees nothing"


EXACT = {"ceil", "gcd", "isqrt"}
"""What of `math` has no rounding of its own: integer functions, and the next integer of a float that is there."""


def _imported(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module == "math" and {alias.name for alias in node.names} <= EXACT:
        return []
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def test_the_largest_intermediate_value_is_reached_so_the_bound_is_tight():
    Watched.largest = 0
    log2_fixed(Watched(2**64))
    assert 2**126 == Watched.largest
