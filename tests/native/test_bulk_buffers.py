"""Keys in buffers: NumPy arrays of every type and stride, `array.array`, memory views."""

import ctypes
import sys
import threading
from array import array

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import hashers, native
from tests.native.comparing import agreed, bulk_reference, is_refused, needs_twin

pytestmark = needs_twin

WIDTHS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
ORDERS = ["<", ">"]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def of_keys(keys):
    return bulk_reference("xxh3-64", list(keys))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", WIDTHS)
def test_integers_of_every_width_sign_and_order(width, order):
    ends = np.iinfo(width)
    keys = [ends.min, 0, 1, ends.max // 3, min(ends.max, 2**63 - 1)]
    assert of_keys(keys) == agreed(lambda: np.array(keys, order + width))
    assert of_keys(keys[::-1]) == agreed(lambda: np.array(keys, order + width)[::-1])


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_unsigned_integers(keys):
    agreed(lambda: np.array(keys, "u8"), threads=(1, 2))
    agreed(lambda: array("Q", keys), threads=(1, 2))


@pytest.mark.parametrize("places", [(0,), (255, 256), (39_999, 20_000)])
def test_what_is_too_large_is_refused_as_the_first_such_key(places):
    keys = np.arange(40_000, dtype="u8")
    for place in places:
        keys[place] += np.uint64(2**63)
    assert is_refused(agreed(lambda: keys), f"key is {2**63 + min(places)}, expected an int of 64 bits, signed")


@pytest.mark.parametrize("step", [1, 2, 3, -1, -7])
@pytest.mark.parametrize("kind", ["i4", "S9", "U9"])
def test_strided_arrays(kind, step):
    keys = np.arange(50_000).astype(kind)[::step]
    assert of_keys(keys.tolist()) == agreed(lambda: keys)


def test_columns_and_fields_of_other_arrays():
    table = np.arange(3000).reshape(1000, 3)
    assert of_keys(range(1, 3000, 3)) == agreed(lambda: table[:, 1])
    packed = np.array([(1, 7, b"ab"), (2, 8, b"c")], dtype=[("a", "i1"), ("b", "i8"), ("c", "S3")])
    assert of_keys([7, 8]) == agreed(lambda: packed["b"])
    assert of_keys([b"ab", b"c"]) == agreed(lambda: packed["c"])


@given(st.lists(st.binary(max_size=20), max_size=300))
def test_fixed_width_bytes(keys):
    made = np.array(keys, "S20")
    assert of_keys(made.tolist()) == agreed(lambda: made, threads=(1, 2))
    assert [key.rstrip(b"\0") for key in keys] == made.tolist()


@pytest.mark.parametrize("order", ORDERS)
@given(keys=st.lists(st.one_of(texts, st.text(st.sampled_from("aé節𝄞\0\x7f\x80ÿĀ"))), max_size=100))
def test_fixed_width_text(order, keys):
    made = np.array(keys, order + "U30")
    assert of_keys(made.tolist()) == agreed(lambda: made, threads=(1, 2))


@given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=5), max_size=9))
def test_fixed_width_text_with_half_surrogates(keys):
    agreed(lambda: np.array(keys, "U5"), threads=(1, 2))


@pytest.mark.parametrize("number", [0x110000, 0xFFFFFFFF, 0x80000000])
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_no_character_is_refused(order, number):
    made = np.array([65, number, 0, 66], order + "u4").view(order + "U2")
    assert is_refused(agreed(lambda: made), f"character of a key is '{hex(number)}'")


@pytest.mark.parametrize("kind", ["S", "U"])
@pytest.mark.parametrize("length", [65_536, 65_537])
def test_long_keys(kind, length):
    made = np.array(["a", "x" * length, "b"], f"{kind}70000")
    assert (length > 65_536) == is_refused(agreed(lambda: made), "at most 65536 bytes")


def test_long_text_that_is_not_ascii():
    for length in (32_768, 32_769):
        made = np.array(["é" * length, "b"] * 5)
        assert (length > 32_768) == is_refused(agreed(lambda: made), "at most 65536 bytes")  # noqa: B023


@pytest.mark.parametrize("name", hashers.names())
@pytest.mark.parametrize("kind", ["i8", "S6", "U6"])
def test_every_hasher(name, kind):
    made = np.arange(700).astype(kind)
    assert isinstance(agreed(lambda: made, name=name), bytes)


@pytest.mark.parametrize("kind", ["S5", "U5", "i8", "i1"])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 16_384, 16_385, 60_000])
def test_every_size_of_block_and_share(kind, size):
    made = (np.arange(size) % 100).astype(kind)
    assert of_keys(made.tolist()) == agreed(lambda: made)


@pytest.mark.parametrize("code", "bBhHiIlLqQ")
def test_arrays_of_the_standard_library(code):
    keys = [0, 1, 127]
    assert of_keys(keys) == agreed(lambda: array(code, keys)) == agreed(lambda: memoryview(array(code, keys)))


def test_other_buffers():
    assert of_keys([1, 2]) == agreed(lambda: (ctypes.c_int64 * 2)(1, 2))
    assert of_keys([1, 2]) == agreed(lambda: memoryview(bytes([1, 0, 2, 0])).cast("H"))
    assert of_keys(["a", "é"]) == agreed(lambda: array("u", "aé"))
    read_only = np.arange(5)
    read_only.flags.writeable = False
    assert of_keys(range(5)) == agreed(lambda: read_only)


REFUSED = [
    (np.array([1.5]), "buffer format of keys is 'd'"), (np.array([True]), "buffer format of keys is '?'"),
    (np.array([1j]), "buffer format of keys is 'Zd'"), (np.zeros(3, "V4"), "buffer format of keys is '4x'"),
    (np.zeros(2, "i4,i4"), "buffer format of keys is 'T{"), (np.array([], "f4"), "buffer format of keys is 'f'"),
    (np.zeros((2, 2), "i8"), "dimensions of keys is 2"), (np.array(7), "dimensions of keys is 0"),
    (np.int64(7), "dimensions of keys is 0"), (np.array(["2020-01-01"], "M8[D]"), "key is a datetime64"),
    (np.array([object()]), "key is an object"), (np.array([1.5], object), "key is 1.5"), (array("d", [1]), "'d'"),
    (memoryview(b"abcd"), "expected an iterable of keys"), (memoryview(b"abcd").cast("c"), "an iterable of keys"),
    (memoryview(bytearray(4)), "expected an iterable of keys"), (memoryview(bytes(8)).cast("d"), "'d'"),
    (np.str_("abc"), "expected an iterable of keys"), (np.bytes_(b"abc"), "expected an iterable of keys"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_holds_no_keys_is_refused(keys, said):
    assert is_refused(agreed(lambda: keys), said)


def test_arrays_of_objects_are_read_object_by_object():
    keys = ["a", 7, b"raw", "é"]
    assert of_keys(keys) == agreed(lambda: np.array(keys, object))
    assert of_keys(keys[:1]) == agreed(lambda: np.array(keys[:1], np.dtypes.StringDType()))


@pytest.mark.parametrize("length", [2**31, 2**32, 2**40])
def test_endless_arrays_are_refused_before_a_key_is_read(length):
    for one in (np.int64(5), np.bytes_(b"k"), np.str_("k")):
        keys = np.broadcast_to(one, (length,))
        assert is_refused(agreed(lambda: keys), f"length of keys is {length}")  # noqa: B023


def test_one_key_many_times():
    assert of_keys([5] * 1000) == agreed(lambda: np.broadcast_to(np.int64(5), (1000,)))


def test_the_buffer_is_held_during_the_call_and_let_go_after_it():
    keys = array("q", range(100))
    agreed(lambda: keys)
    keys.append(100)  # an array whose buffer is held would refuse it
    wrong = array("Q", [2**63])
    agreed(lambda: wrong)
    wrong.append(1)


@pytest.mark.parametrize("kind", ["u8", "S8", "U8"])
def test_a_buffer_that_is_written_to_meanwhile_gives_some_answers(kind):
    keys, stop = np.full(100_000, 7).astype(kind), threading.Event()

    def change():
        while not stop.is_set():
            keys[:] = np.array(11**7).astype(kind)
            keys[:] = np.array(0).astype(kind)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for threads in (1, 2) * 5:
            assert 800_000 == len(native.extension.positions("xxh3-64", keys, None, threads))
    finally:
        stop.set()
        changer.join()


class Exported:
    """An Arrow array whose export was made before: pyarrow gives the interpreter's lock away for it."""

    def __init__(self, array):
        self.capsules = array.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema=None):
        return self.capsules


# Of a list's keys other threads get their turn after 2**19.
NUMBERS = range(500_000)
UNLOCKED = {
    "numbers": lambda: np.array(NUMBERS),
    "fixed-width-bytes": lambda: np.array(NUMBERS).astype("S6"),
    "arrow-numbers": lambda: Exported(pa.array(NUMBERS)),
    "arrow-texts": lambda: Exported(pa.array(map(str, NUMBERS), pa.utf8())),
}
LOCKED = {
    "list": lambda: list(map(str, NUMBERS)),
    "tuple": lambda: tuple(map(str, NUMBERS)),
    "few-numbers": lambda: np.arange(1000),
}


@pytest.fixture
def unasked():
    """Let no thread ask for the interpreter's lock meanwhile: another has it only if it is given away."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10)
    yield
    sys.setswitchinterval(before)


def counted_during(call):
    """Return how far another thread, which waits for nothing but the interpreter's lock, counts while a call runs."""
    waits, begin, counted = threading.Lock(), threading.Lock(), 0

    def count():
        nonlocal counted
        waits.release()
        begin.acquire()
        for _ in range(1000):
            counted += 1

    waits.acquire()
    begin.acquire()
    counter = threading.Thread(target=count)
    counter.start()
    waits.acquire()
    begin.release()
    before = counted
    call()
    during = counted - before
    counter.join()
    assert 1000 == counted
    return during


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", UNLOCKED.values(), ids=UNLOCKED)
def test_other_threads_run_while_keys_of_a_buffer_are_hashed(make, threads, unasked):
    keys = make()
    calls = (lambda: native.extension.positions("xxh3-64", keys, None, threads) for _ in range(200))
    assert any(map(counted_during, calls))  # at the first call, unless the machine is too busy to wake the thread


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", LOCKED.values(), ids=LOCKED)
def test_no_other_thread_runs_while_objects_are_read_or_unlocking_is_not_worth_it(make, threads, unasked):
    keys = make()
    calls = (lambda: native.extension.positions("xxh3-64", keys, None, threads) for _ in range(20))
    assert {0} == set(map(counted_during, calls))
