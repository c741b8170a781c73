"""Keys in Arrow arrays: of pyarrow, polars and pandas, and forged ones that no library would make."""

import uuid
from itertools import pairwise

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import hashers, native
from tests.native.comparing import agreed, bulk_reference, hammered, is_refused, needs_twin
from tests.native.forged import Arrow, Chunked, numbers

pytestmark = needs_twin

TEXT_TYPES = [pa.utf8(), pa.large_utf8(), pa.string_view()]
DATA_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]
INTEGER_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
texts = st.text(st.characters(exclude_categories=["Cs"]))
MANY = [f"tenant-{number}" * (1 + number % 3) for number in range(40_000)]


def of_keys(keys):
    """Return what both must answer for an array of these keys."""
    return bulk_reference("xxh3-64", keys)


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@given(keys=st.lists(texts), skipped=st.integers(0, 5))
def test_texts(kind, keys, skipped):
    array = pa.array(keys, kind).slice(skipped)
    assert of_keys(keys[skipped:]) == agreed(lambda: array, threads=(1, 2))


@pytest.mark.parametrize("kind", DATA_TYPES, ids=str)
@given(keys=st.lists(st.binary()), skipped=st.integers(0, 5))
def test_binary(kind, keys, skipped):
    array = pa.array(keys, kind).slice(skipped)
    assert of_keys(keys[skipped:]) == agreed(lambda: array, threads=(1, 2))


@pytest.mark.parametrize("kind", INTEGER_TYPES, ids=str)
def test_integers(kind):
    lowest = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
    keys = [lowest, 0, 1, 2 ** (kind.bit_width - 1) - 1, lowest + 2**kind.bit_width - 1]
    array = pa.array(keys, kind)
    if kind == pa.uint64():
        assert is_refused(agreed(lambda: array), "key is 18446744073709551615, expected an int of 64 bits, signed")
        array, keys = array.slice(1, 3), keys[1:4]
    assert of_keys(keys) == agreed(lambda: array)


@given(st.lists(st.integers(2**63 - 3, 2**63 + 3)))
def test_unsigned_integers_at_the_end_of_the_signed(keys):
    agreed(lambda: pa.array(keys, pa.uint64()), threads=(1, 2))


@pytest.mark.parametrize("name", hashers.names())
@pytest.mark.parametrize("kind", [*TEXT_TYPES, pa.binary()], ids=str)
def test_every_hasher(name, kind):
    array = pa.array([*MANY[:600], "é", ""], kind)
    assert isinstance(agreed(lambda: array, name=name, threads=(1, 2)), bytes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*TEXT_TYPES, pa.int64()], ids=str)
@pytest.mark.parametrize("skipped", [0, 1, 255, 256, 257, 20_000])
def test_many_keys_of_a_slice(kind, skipped):
    keys = range(40_000) if kind == pa.int64() else MANY
    array = pa.array(keys, kind).slice(skipped, 19_000)
    assert of_keys(list(keys[skipped : skipped + 19_000])) == agreed(lambda: array)


@pytest.mark.parametrize("kind", [*TEXT_TYPES, pa.binary(), pa.int16()], ids=str)
def test_chunks_are_read_one_after_the_other(kind):
    keys = list(range(3000)) if kind == pa.int16() else MANY[:3000]
    cuts = [0, 0, 1, 257, 257, 1000, 3000]
    parts = [pa.array(keys[start:end], kind) for start, end in pairwise(cuts)]
    of_bytes = pa.chunked_array(parts, kind)
    assert of_keys(keys) == agreed(lambda: of_bytes)
    assert of_keys(keys[200:2000]) == agreed(lambda: of_bytes.slice(200, 1800))
    assert b"" == agreed(lambda: pa.chunked_array([], kind))


@pytest.mark.parametrize("kind", [*TEXT_TYPES, *DATA_TYPES, *INTEGER_TYPES], ids=str)
@pytest.mark.parametrize(("count", "skipped"), [(1, 0), (40, 3), (40, 8), (40, 23), (3000, 1), (3000, 2991)])
def test_a_null_is_refused_with_its_index(kind, count, skipped):
    whole = INTEGER_TYPES if kind in INTEGER_TYPES else [] if kind in TEXT_TYPES else [None]
    one = 7 if kind in whole else "k" if kind in TEXT_TYPES else b"k"
    for place in {skipped, (count + skipped) // 2, count - 1}:
        keys = [one] * count
        keys[place] = None
        array = pa.array(keys, kind)
        assert is_refused(agreed(lambda: array.slice(skipped)), f"key at index {place - skipped} is None")  # noqa: B023
        assert isinstance(agreed(lambda: array.slice(place + 1)), bytes)  # noqa: B023
        chunked = pa.chunked_array([pa.array([one] * 5, kind), array])
        assert is_refused(agreed(lambda: chunked), f"key at index {place + 5} is None")  # noqa: B023


def test_an_array_of_nulls_alone():
    assert is_refused(agreed(lambda: pa.nulls(3)), "key at index 0 is None")
    assert b"" == agreed(lambda: pa.array([]))


REFUSED_TYPES = [
    pa.array([1.5]), pa.array([True]), pa.array([[1]]), pa.array([{"a": 1}]), pa.array([0], pa.date32()),
    pa.array([0], pa.timestamp("us", "UTC")), pa.array([b"ab"], pa.binary(2)), pa.array([1.5], pa.float16()),
    pa.table({"a": ["k"]}), pa.record_batch({"a": ["k"]}), pl.DataFrame({"a": ["k"]}), pl.Series([1.5]),
    pl.Series([True]), pd.Series([1.5]), pd.Series([True]), pa.array([uuid.UUID(int=1).bytes], pa.uuid()),
    pa.array([1], pa.bool8()), pa.array([0], pa.time32("s")), pa.array([], pa.float64()),
]  # fmt: skip


@pytest.mark.parametrize("array", REFUSED_TYPES, ids=range(len(REFUSED_TYPES)))
def test_what_is_no_key_is_refused_by_its_type(array):
    assert is_refused(agreed(lambda: array), "Arrow type of keys", "expected text, binary or integers")


ENCODED = [
    pa.array(["a", "b"]).dictionary_encode(), pa.chunked_array([pa.array(["a"]).dictionary_encode()]),
    pl.Series(["a"], dtype=pl.Categorical), pl.Series(["a"], dtype=pl.Enum(["a"])), pd.Series(["a"], dtype="category"),
]  # fmt: skip


@pytest.mark.parametrize("array", ENCODED, ids=range(len(ENCODED)))
def test_dictionaries_are_refused_with_advice(array):
    assert is_refused(agreed(lambda: array), "'dictionary-encoded'", "Decode it")


SERIES = [
    (pl.Series(["a", "é", "long" * 9]), ["a", "é", "long" * 9]),
    (pl.Series([b"raw"]), [b"raw"]),
    (pl.Series([1, -1], dtype=pl.Int16), [1, -1]),
    (pl.concat([pl.Series(["a"]), pl.Series(["b"])], rechunk=False), ["a", "b"]),
    (pl.Series(MANY)[100:-1:2], MANY[100:-1:2]),
    (pd.Series(["a", "é"]), ["a", "é"]),
    (pd.Series(["a", "é"], dtype="string[pyarrow]"), ["a", "é"]),
    (pd.Series(["a", "é"], dtype=object), ["a", "é"]),
    (pd.Series(["a", 7, b"raw", uuid.UUID(int=3)], dtype=object), ["a", 7, b"raw", uuid.UUID(int=3)]),
    (pd.Series([3, -4]), [3, -4]),
    (pd.Series([3, -4], dtype="Int8"), [3, -4]),
    (pd.Series(["a", "b"], index=[7, 3])[::-1], ["b", "a"]),
    (pd.Index(["a", "b"]), ["a", "b"]),
    (pd.Series(["a"]).array, ["a"]),
    (pl.Series([], dtype=pl.String), []),
]


@pytest.mark.parametrize(("series", "keys"), SERIES, ids=range(len(SERIES)))
def test_series(series, keys):
    assert of_keys(keys) == agreed(lambda: series)


@pytest.mark.parametrize(
    "series",
    [pl.Series(["a", None]), pd.Series(["a", None]), pl.Series([1, None]), pd.Series([1, None], dtype="Int64")],
)
def test_a_null_of_a_series_is_refused_with_its_index(series):
    assert is_refused(agreed(lambda: series), "key at index 1 is None")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*TEXT_TYPES, pa.binary()], ids=str)
@pytest.mark.parametrize("place", [0, 5, 300, 39_999])
def test_a_key_that_is_too_long_is_refused_with_its_index(kind, place):
    keys = [*MANY]
    keys[place] = "x" * 65_537
    array = pa.array(keys, kind)
    assert is_refused(agreed(lambda: array), f"length of the key at index {place} is 65537")
    keys[place] = "x" * 65_536
    assert of_keys(keys) == agreed(lambda: pa.array(keys, kind), threads=(2,))


@pytest.mark.parametrize("places", [(0, 39_999), (20_000, 20_001), (39_998, 100)])
def test_the_error_is_that_of_the_first_key_that_has_one(places):
    numbers = list(range(40_000))
    for place in places:
        numbers[place] = 2**63 + place
    array = pa.array(numbers, pa.uint64())
    assert is_refused(agreed(lambda: array), f"key is {2**63 + min(places)}")


def forged_text(offsets, data=b"abcdef", kind="u", **described):
    wide = "q" if kind in "UZ" else "i"
    described = {"length": len(offsets) - 1, **described}
    return Arrow(kind, [None, numbers(wide, *offsets), data], **described)


@pytest.mark.parametrize("kind", ["u", "U", "z", "Z"])
def test_a_well_forged_array(kind):
    assert of_keys(["ab", "", "cdef"]) == agreed(lambda: forged_text([0, 2, 2, 6], kind=kind))
    assert of_keys(["", "cdef"]) == agreed(lambda: forged_text([0, 2, 2, 6], kind=kind, length=2, offset=1))
    assert of_keys(["", ""]) == agreed(lambda: forged_text([0, 0, 0], data=None, kind=kind))
    assert b"" == agreed(lambda: Arrow(kind, [None, None, None], length=0))


def test_text_that_is_no_utf_8_is_the_key_of_its_bytes():
    assert of_keys([b"\xff\xed\xa0\x80", b"ok"]) == agreed(lambda: forged_text([0, 4, 6], b"\xff\xed\xa0\x80ok"))


@pytest.mark.parametrize("kind", ["u", "U", "z", "Z"])
@pytest.mark.parametrize(
    "offsets", [[0, 4, 2, 6], [0, 7, 2, 6], [-1, 2, 3, 6], [0, -2, 3, 6], [6, 2, 3, 0], [0, 2, 3, -1]]
)
def test_offsets_that_cannot_be_are_refused_before_a_byte_is_read(kind, offsets):
    assert is_refused(agreed(lambda: forged_text(offsets, kind=kind)), "extent of the key at index", "within 0 ..")


@pytest.mark.parametrize("last", [2**31, 2**32, 2**62, 2**63 - 1])
def test_offsets_far_beyond_any_data_are_refused_before_a_byte_is_read(last):
    assert is_refused(agreed(lambda: forged_text([0, 2, last], kind="U")), f"index 1 is {last - 2},")
    assert is_refused(agreed(lambda: forged_text([0, last, 6], kind="U")), "extent of the key at index 0")


@pytest.mark.parametrize("kind", ["u", "U", "vu", "l", "c", "n"])
@pytest.mark.parametrize("length", [2**31, 2**32, 2**32 + 1, 2**62, 2**63 - 1, -1, -(2**31), -(2**63)])
def test_lengths_that_cannot_be(kind, length):
    buffers = {"l": [None, bytes(8)], "c": [None, b"x"], "n": []}.get(kind, [None, bytes(16), b""])
    assert is_refused(agreed(lambda: Arrow(kind, buffers, length=length)), "length of the Arrow array is", str(length))


@pytest.mark.parametrize("offset", [2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -1, -(2**63)])
def test_offsets_of_the_array_that_cannot_be(offset):
    assert is_refused(agreed(lambda: forged_text([0, 2, 6], offset=offset)), "offset of the Arrow array is")


def view(length, rest, index=0, begin=0):
    inline = length <= 12
    return numbers("i", length) + (rest.ljust(12, b"\0") if inline else rest[:4].ljust(4) + numbers("i", index, begin))


def forged_views(*views, data=(b"0123456789abcdef",), sizes=(16,), kind="vu", **described):
    described = {"length": len(views), **described}
    return Arrow(kind, [None, b"".join(views), *data, numbers("q", *sizes)], **described)


@pytest.mark.parametrize("kind", ["vu", "vz"])
def test_well_forged_views(kind):
    views = [view(3, b"abc"), view(0, b""), view(12, b"abcdefghijkl"), view(13, b"0123"), view(13, b"3456", begin=3)]
    keys = ["abc", "", "abcdefghijkl", "0123456789abc", "3456789abcdef"]
    assert of_keys(keys) == agreed(lambda: forged_views(*views, kind=kind))
    assert of_keys(keys[3:]) == agreed(lambda: forged_views(*views, kind=kind, offset=3, length=2))
    assert of_keys(keys[:3]) == agreed(lambda: forged_views(*views[:3], kind=kind, data=(), sizes=()))


@pytest.mark.parametrize(
    "wrong",
    [
        view(13, b"", begin=4), view(13, b"", begin=-1), view(13, b"", index=1), view(13, b"", index=-1), view(17, b""),
        view(2**31 - 1, b""), view(13, b"", begin=2**31 - 1), view(-1, b""), view(-(2**31), b""),
        view(13, b"", index=2**31 - 1), view(2**31 - 1, b"", begin=2**31 - 1),
    ],
    ids=range(11),
)  # fmt: skip
def test_views_that_cannot_be(wrong):
    assert is_refused(agreed(lambda: forged_views(view(1, b"a"), wrong)), "extent of the key at index 1")
    assert is_refused(agreed(lambda: forged_views(wrong, data=(), sizes=())), "extent of the key at index 0")
    assert is_refused(agreed(lambda: forged_views(wrong, data=(None,))), "extent of the key at index 0")
    for size in (-1, -(2**63)):
        assert is_refused(agreed(lambda: forged_views(wrong, sizes=(size,))), "extent of the key at index 0")  # noqa: B023


@pytest.mark.parametrize(
    ("kind", "buffers", "said"),
    [
        ("u", [None, bytes(8)], "number of buffers of the Arrow array is 2, expected 3"),
        ("u", [None, None, b"x"], "address of buffer 1"),
        ("l", [None, None], "address of buffer 1"),
        ("l", [None, bytes(8), b""], "number of buffers of the Arrow array is 3, expected 2"),
        ("l", [], "number of buffers of the Arrow array is 0"),
        ("vu", [None, bytes(16)], "number of buffers of the Arrow array is 2, expected 3 to 1048576"),
        ("vu", [None, bytes(16), b"abc", None], "address of the sizes"),
    ],
)
def test_missing_buffers(kind, buffers, said):
    assert is_refused(agreed(lambda: Arrow(kind, buffers, length=1)), said)


@pytest.mark.parametrize("count", [2**20 + 1, 2**31, 2**32, 2**62, 2**63 - 1, -1, -(2**63)])
def test_numbers_of_buffers_that_no_array_has(count):
    found = agreed(lambda: Arrow("vu", [None, view(1, b"a")], length=1, n_buffers=count))
    assert is_refused(found, f"number of buffers of the Arrow array is {count}, expected 3 to 1048576")


@pytest.mark.parametrize(("null_count", "bitmap", "said"), [
    (1, None, "number of nulls of the Arrow array is 1"), (-1, b"\x05", "key at index 1 is None"),
    (2, b"\x06", "key at index 0 is None"), (-1, None, None), (0, b"\0", None), (-1, b"\x07", None),
])  # fmt: skip
def test_counts_of_nulls_that_are_unknown_or_wrong(null_count, bitmap, said):
    found = agreed(lambda: Arrow("c", [bitmap, b"abc"], length=3, null_count=null_count))
    assert is_refused(found, said) if said else found == of_keys([*b"abc"])


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.data())
def test_the_first_null_of_any_bitmap(marks, data):
    offset = data.draw(st.integers(0, len(marks) - 1))
    bits = sum(mark << place for place, mark in enumerate(marks)).to_bytes(25, "little")
    found = agreed(lambda: Arrow("c", [bits, bytes(200)], length=len(marks) - offset, offset=offset, null_count=-1))
    nulls = [place for place, mark in enumerate(marks[offset:]) if not mark]
    assert is_refused(found, f"key at index {nulls[0]} is None") if nulls else isinstance(found, bytes)


@pytest.mark.parametrize("kind", ["", "x", "uu", "vl", "+s", "tsu:UTC", "w:16", "d:1,1", "é"])
def test_unknown_formats(kind):
    assert is_refused(agreed(lambda: Arrow(kind, [None, bytes(8)], length=1)), "Arrow type of keys is")


def test_extensions_and_dictionaries_are_refused():
    extended = Arrow("c", [None, b"a"], length=1, extension=b"arrow.bool8")
    assert is_refused(agreed(lambda: extended), "Arrow type of keys is 'arrow.bool8'")
    assert is_refused(agreed(lambda: Arrow("c", [None, b"a"], length=1, encoded=True)), "'dictionary-encoded'")


def test_what_was_released_is_refused():
    array = forged_text([0, 2, 6])
    array.array.release = None
    assert is_refused(agreed(lambda: array), "release callback of the Arrow array")
    array.schema.release = None
    assert is_refused(agreed(lambda: array), "release callback of the schema of the Arrow array")


@pytest.mark.parametrize("given", [None, 5, ("a", "b"), (), ["k"], "capsule", (1, 2, 3)], ids=repr)
@pytest.mark.parametrize("name", ["__arrow_c_array__", "__arrow_c_stream__"])
def test_what_is_no_capsule_is_refused(name, given):
    pretender = type("Pretender", (), {name: lambda self: given})()
    assert is_refused(agreed(lambda: pretender), f"result of {name}")


def test_capsules_of_something_else_are_refused_by_the_interpreter():
    swapped = forged_text([0, 2, 6])
    schema, array = swapped.__arrow_c_array__()
    pretender = type("Pretender", (), {"__arrow_c_array__": lambda self: (array, schema)})()
    kind, said = agreed(lambda: pretender)
    assert (ValueError, True) == (kind, "PyCapsule_GetPointer" in said)


def ran_by_both(keys, release_count):
    """Run keys made anew by both, and hold both to the releases."""
    for run in (lambda made: bulk_reference("xxh3-64", made), lambda made: native.extension.positions("xxh3-64", made)):
        made = keys()
        try:
            run(made)
        except ValueError as error:
            said = str(error)
        else:
            said = ""
        assert release_count == made.releases.done
        yield made, said


def test_an_array_is_left_to_its_capsule_to_release():
    assert ["", ""] == [said for _, said in ran_by_both(lambda: forged_text([0, 2, 6]), 0)]
    assert 2 == len([said for _, said in ran_by_both(lambda: forged_text([0, 7, 6]), 0) if "extent" in said])


TWO_CHUNKS = ([None, b"ab"], 2), ([b"\x01", b"cd"], 1)


@pytest.mark.parametrize(
    ("kind", "arrays", "reason", "releases", "said"),
    [
        ("c", TWO_CHUNKS, None, 3, ""),
        ("c", (), None, 1, ""),
        ("c", (*TWO_CHUNKS, ([None], 1)), None, 4, "number of buffers"),
        ("c", (*TWO_CHUNKS, ([b"\0", b"x"], 1)), None, 4, "key at index 3 is None"),
        ("c", (([None, b"x"], -1), *TWO_CHUNKS), None, 2, "length of the Arrow array"),
        ("L", (([None, b"\xff" * 8], 1),), None, 2, "an int of 64 bits"),
        ("g", TWO_CHUNKS, None, 1, "Arrow type"),
        ("c", TWO_CHUNKS, b"the disk is gone", 3, "Arrow stream of keys is 'the disk is gone'"),
    ],
)
def test_what_is_taken_out_of_a_stream_is_released_once(kind, arrays, reason, releases, said):
    runs = list(ran_by_both(lambda: Chunked(kind, *arrays, reason=reason), releases))
    assert runs[0][1] == runs[1][1]
    assert said in runs[0][1]
    assert [0, 0] == [made.released.done for made, _ in runs]


def test_a_stream_is_read_in_order_and_once():
    assert of_keys([*b"abc"]) == agreed(lambda: Chunked("c", *TWO_CHUNKS))
    stream = Chunked("c", *TWO_CHUNKS)
    stream.stream.release = None
    assert is_refused(agreed(lambda: stream), "it was read before")


def test_sixteen_threads_of_python_at_once():
    array = pa.chunked_array([pa.array(MANY), pa.array(MANY)])
    found = hammered(lambda number: native.extension.positions("xxh3-64", array, None, number % 4), rounds=10)
    assert {of_keys([*MANY, *MANY])} == found


def test_what_cannot_be_exported_is_iterated_over():
    class Mixed(list):
        def __arrow_c_stream__(self, requested_schema=None):
            raise pa.ArrowInvalid("mixed types")

    assert of_keys(["a", 7]) == agreed(lambda: Mixed(["a", 7]))
