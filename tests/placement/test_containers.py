"""Many keys may come in any container, and every placement reads the same keys in it."""

import sys
from array import array
from functools import cache
from subprocess import run

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from apportion import Ring, placement, plan
from apportion.errors import InvalidInput
from apportion.placement.keys.containers import keys_in
from apportion.placement.keys.key_bytes import listed
from tests.contracts.promises import NODES
from tests.contracts.samples import TEXT_ONLY, keys_of, start

TEXTS = {
    "tuple": tuple, "iterator": iter, "dict": dict.fromkeys, "arrow": pa.array,
    "arrow slice": lambda keys: pa.array(["x", *keys])[1:],
    "arrow chunks": lambda keys: pa.chunked_array([keys[:7], [], keys[7:]]),
    "arrow views": lambda keys: pa.array(keys, pa.string_view()),
    "arrow large": lambda keys: pa.array(keys, pa.large_utf8()),
    "polars": pl.Series, "pandas": pd.Series,
    "pandas objects": lambda keys: pd.Series(keys, dtype=object), "pandas index": pd.Index, "numpy": np.array,
    "numpy objects": lambda keys: np.array(keys, object), "numpy backwards": lambda keys: np.array(keys[::-1])[::-1],
}  # fmt: skip
NUMBERS = {
    "arrow": pa.array, "polars": pl.Series, "pandas": pd.Series, "numpy": np.array,
    "array": lambda keys: array("q", keys),
    "narrow": lambda keys: np.array(keys, "i2"), "other order": lambda keys: np.array(keys, ">i8"), "range": iter,
    "view": lambda keys: memoryview(array("i", keys)),
}  # fmt: skip
SPECS = {name: placement.get(name) for name in placement.names()}


@cache
def built_of(name):
    """Return the placement of a name that all tests ask and none changes."""
    return start(SPECS[name], NODES)


@pytest.mark.parametrize("container", TEXTS)
@pytest.mark.parametrize("name", SPECS)
def test_every_placement_reads_texts_in_every_container(name, container):
    built, keys = built_of(name), keys_of(SPECS[name])[:30]
    assert built.route_many(keys) == built.route_many(TEXTS[container](keys))
    assert built.route_indexes(keys) == built.route_indexes(TEXTS[container](keys))


@pytest.mark.parametrize("container", NUMBERS)
@pytest.mark.parametrize("name", [name for name in SPECS if name not in TEXT_ONLY])
def test_every_placement_reads_numbers_in_every_container(name, container):
    built, keys = built_of(name), list(range(-20, 20))
    assert built.route_many(keys) == built.route_many(NUMBERS[container](keys))
    assert built.route_indexes(keys) == built.route_indexes(NUMBERS[container](keys))


def test_plans_are_counted_over_keys_in_any_container():
    old, keys = Ring(["a", "b"]), [f"tenant-{number}" for number in range(200)]
    new = old.on(old.topology.add("c"))
    assert plan(old, new, keys).changes == plan(old, new, pa.array(keys)).changes
    assert plan(old, new, range(200)).changes == plan(old, new, np.arange(200)).changes


@pytest.mark.parametrize("keys", ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc"), 5, None, Ring])
def test_what_is_no_container_is_refused(keys):
    with pytest.raises(InvalidInput, match="expected an iterable of keys"):
        Ring(["a"]).route_many(keys)


def test_keys_are_what_a_list_of_them_would_hold():
    assert ["a", "é"] == list(listed(pa.array(["a", "é"]))) == list(listed(np.array(["a", "é"])))
    assert [b"a", b""] == list(listed(pa.array([b"a", b""]))) == list(listed(np.array([b"a", b""])))
    assert [3, -1] == list(listed(pa.array([3, -1]))) == list(listed(np.array([3, -1], ">i2")))
    assert [b"\xff"] == list(listed(pa.array([b"\xff"]).view(pa.utf8())))


def test_a_list_is_read_as_it_was_when_it_was_passed():
    keys = ["a", "b"]
    found = listed(keys)
    keys.clear()
    assert ["a", "b"] == list(found)


def test_a_stream_that_is_not_read_to_its_end_is_let_go():
    keys = keys_in(pa.chunked_array([["a"], ["b"]]))
    assert "a" == next(keys)
    keys.close()
    assert [] == list(keys)


def test_neither_arrow_nor_numpy_is_imported_for_a_list():
    code = "import sys; from apportion import Ring; Ring(['a']).route_many(['k']); print(*sys.modules)"
    modules = run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert set() == {"numpy", "pandas", "polars", "pyarrow", "ctypes", "apportion.placement.keys.arrow"} & set(modules)
