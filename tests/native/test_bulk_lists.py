"""Keys in lists, tuples and whatever can be iterated over: the twin reads them as the reference does."""

import gc
import itertools
import sys
import threading
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import hashers, native
from tests.native.comparing import agreed, bulk_reference, hammered, is_refused, needs_twin, outcome
from tests.native.test_positions import REFUSED, SUBCLASSED

pytestmark = needs_twin

BLOCK = 256
A_TURN = 1 << 19
SIZES = [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 16 * BLOCK, 16 * BLOCK + 1, 50_000]
keys = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.binary(), st.integers(-(2**63), 2**63 - 1), st.uuids(),
    st.text(st.sampled_from("aé節𝄞\0\x7f\x80ÿĀ")), st.sampled_from(SUBCLASSED),
)  # fmt: skip


def texts(count):
    return [f"tenant-{number}" for number in range(count)]


@given(st.lists(keys, max_size=600))
def test_any_keys_in_a_list_or_tuple(keys):
    found = agreed(lambda: keys, threads=(1, 2))
    assert found == agreed(lambda: tuple(keys), threads=(1, 2)) == agreed(lambda: iter(keys), threads=(1,))


@given(st.lists(st.one_of(keys, st.sampled_from(REFUSED)), max_size=300))
def test_any_keys_among_what_is_no_key(keys):
    agreed(lambda: keys, threads=(1, 2))


@pytest.mark.parametrize("name", hashers.names())
def test_every_hasher(name):
    mixed = [*texts(600), b"raw", -7, "é", UUID(int=5), ""]
    assert 8 * len(mixed) == len(agreed(lambda: mixed, name=name))


@pytest.mark.parametrize("size", SIZES)
def test_every_size_of_block_and_share(size):
    keys = texts(size)
    assert 8 * size == len(agreed(lambda: keys)) == len(agreed(lambda: tuple(keys)))


@pytest.mark.parametrize("rare", ["é", 7, b"raw", UUID(int=3), SUBCLASSED[0]], ids=range(5))
@pytest.mark.parametrize("place", [0, 1, BLOCK - 1, BLOCK, 16 * BLOCK, 39_999])
def test_a_rare_key_among_plain_ones(rare, place):
    keys = texts(40_000)
    keys[place] = rare
    assert isinstance(agreed(lambda: keys), bytes)


@pytest.mark.parametrize("places", [(0,), (255,), (256,), (39_999,), (30_000, 100), (5000, 4999, 20_000)])
def test_the_error_is_that_of_the_first_key_that_has_one(places):
    keys = texts(40_000)
    for place in places:
        keys[place] = float(place)
    assert is_refused(agreed(lambda: keys), f"key is {float(min(places))!r}")


def test_a_list_that_takes_several_turns():
    keys = texts(A_TURN + 1000)
    keys[A_TURN - 1], keys[A_TURN] = "é", UUID(int=1)
    agreed(lambda: keys, threads=(1, 2))


@pytest.mark.parametrize("length", [65_534, 65_536, 65_538, 1_000_000])
@pytest.mark.parametrize("key", ["x", "é", b"x"])
def test_long_keys(key, length):
    found = agreed(lambda: ["a", key * (length // (2 if key == "é" else 1)), "b"])
    assert (length > 65_536) == is_refused(found, "at most 65536 bytes")


@pytest.mark.parametrize("single", ["abc", "", b"abc", bytearray(b"abc"), memoryview(b"abc"), SUBCLASSED[0], 5, None])
def test_a_single_key_is_refused(single):
    assert is_refused(agreed(lambda: single), "expected an iterable of keys")


class Listed(list):
    def __iter__(self):
        return iter(["what", "it", "says"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"a": 1, "b": 2}, {"a": 1}.keys, lambda: range(1000), lambda: map(str, range(1000)),
        lambda: (key for key in texts(1000)), lambda: Listed("abc"), lambda: {"only"}, lambda: itertools.repeat("k", 9),
        lambda: reversed(texts(5)), lambda: iter([]),
    ],
    ids=range(10),
)  # fmt: skip
def test_other_iterables_are_collected(make):
    agreed(make)


class Interfering(UUID):
    """A key that does something to the list when it is read."""

    def __init__(self, act):
        super().__init__(int=5)
        object.__setattr__(self, "act", act)

    def __str__(self):
        self.act()
        return "interfering"


ACTS = [
    lambda keys: keys.clear(),
    lambda keys: keys.extend(texts(5000)),
    lambda keys: keys.__setitem__(slice(None), [object()] * len(keys)),
    lambda keys: keys.__delitem__(slice(100)),
    lambda keys: (keys.clear(), keys.extend(["other"] * 9), gc.collect()),
]


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS, ids=range(len(ACTS)))
@pytest.mark.parametrize("place", [0, 1, 300, 1101, -1])
def test_a_list_is_read_as_it_was_when_the_call_began(act, place):
    def make():
        keys = [f"key-{number}".upper() for number in range(1100)]
        keys.insert(place, Interfering(lambda: act(keys)))
        keys.insert(700, Interfering(lambda: None))
        return keys

    keys = make()
    assert 8 * len(keys) == len(agreed(make))


def test_a_list_that_another_thread_changes_is_read_or_refused():
    keys, stop = texts(2 * A_TURN), threading.Event()

    def change():
        while not stop.is_set():
            keys.append(str(len(keys)))
            keys.pop()
            keys[len(keys) // 2] = "other" * 3
            del keys[-3:]
            keys.extend(texts(3))

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for threads in (1, 2) * 5:
            found = outcome(lambda threads=threads: native.extension.positions("xxh3-64", keys, None, threads))
            assert isinstance(found, bytes) or is_refused(found, "length of keys is")
    finally:
        stop.set()
        changer.join()


def test_sixteen_threads_of_python_at_once():
    keys = [*texts(9000), "é", b"raw", 5, UUID(int=9), *texts(9000)]
    found = hammered(lambda number: native.extension.positions("xxh3-64", keys, None, number % 4), rounds=20)
    assert {bulk_reference("xxh3-64", keys)} == found


def test_nothing_is_held_longer_than_the_call():
    kept = [UUID(int=number) for number in range(1000)]
    keys = [*kept, "é", b"raw", "plain" * 3]
    before = [sys.getrefcount(key) for key in keys]
    for threads in (1, 2):
        native.extension.positions("xxh3-64", keys, None, threads)
        with pytest.raises(ValueError, match=r"key is 1\.5"):
            native.extension.positions("xxh3-64", [*keys, 1.5], None, threads)
    assert before == [sys.getrefcount(key) for key in keys]


@pytest.mark.parametrize("threads", [0, 1, 3, 64, 65, 10**6])
def test_any_number_of_threads_gives_the_same_answers(threads):
    keys = texts(20_000)
    assert bulk_reference("xxh3-64", keys) == native.extension.positions("xxh3-64", keys, None, threads)
