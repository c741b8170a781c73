"""User data: the bytes of the Java client, and what is made of bytes that it did not write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance.kafka import (
    Remembered,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
    recall_generation,
    recall_sticky,
)
from apportion.errors import BadSnapshot, InvalidInput

# As the Java client 4.1.1 wrote them. The last: both topics fall into one bucket of its hash map.
JAVA = [
    ("00000000ffffffff", (), -1),
    ("0000000100017400000002000000010000000000000007", (("t", 1), ("t", 0)), 7),
    (
        "00000002000374302e0000000100000000000a74322ee7af80efbd9e620000000300000001000000000000000200000002",
        (("t2.節\uff5eb", 1), ("t0.", 0), ("t2.節\uff5eb", 0), ("t2.節\uff5eb", 2)),
        2,
    ),
]
PARTITIONS = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), st.integers(0, 2**31 - 1))
)


@pytest.mark.parametrize(("data", "owned", "generation"), JAVA)
def test_the_bytes_are_java_s(data, owned, generation):
    assert data == encode_sticky(Remembered(owned=owned, generation=generation)).hex()


@given(PARTITIONS, st.integers(-1, 2**31 - 1))
def test_what_is_written_is_read(owned, generation):
    data = encode_sticky(Remembered(owned=tuple(owned), generation=generation))
    read = decode_sticky(data)
    assert (sorted(owned), generation) == (sorted(read.owned), read.generation)
    assert read == recall_sticky(data)
    assert generation == decode_cooperative(encode_cooperative(generation)) == recall_generation(data[-4:])


@given(PARTITIONS)
def test_version_0_has_no_generation(owned):
    remembered = Remembered(owned=tuple(owned), generation=5)
    data = encode_sticky(remembered, version=0)
    assert encode_sticky(remembered) == data + bytes([0, 0, 0, 5])
    assert Remembered(owned=decode_sticky(encode_sticky(remembered)).owned) == decode_sticky(data)


@pytest.mark.parametrize("data", [data for data, *_ in JAVA])
def test_kafka_python_s_two_bytes_of_version_are_passed_over(data):
    assert decode_sticky(bytes.fromhex(data)) == decode_sticky(bytes.fromhex("0001" + data))
    with pytest.raises(BadSnapshot, match="user data is"):
        decode_sticky(bytes.fromhex("0001" + data)[:5])


def test_a_truncated_generation_is_none_and_what_comes_after_it_is_passed_over():
    data = bytes.fromhex(JAVA[1][0])
    assert (("t", 1), ("t", 0)) == decode_sticky(data[:-1]).owned
    assert [-1, -1, -1, -1, 7, 7] == [decode_sticky((data + b"\x00")[:end]).generation for end in range(19, 25)]


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_and_recalled_as_nothing(data):
    try:
        expected = decode_sticky(data)
    except BadSnapshot:
        expected = Remembered()
    assert expected == recall_sticky(data)
    assert recall_generation(data) == (max(-1, int.from_bytes(data[:4], signed=True)) if len(data) >= 4 else -1)


@pytest.mark.parametrize("end", range(19))
def test_what_is_truncated_before_the_generation_is_refused(end):
    with pytest.raises(BadSnapshot, match="user data is"):
        decode_sticky(bytes.fromhex(JAVA[1][0])[:end])


@pytest.mark.parametrize(
    "data",
    [
        "ffffffff",  # a count below 0
        "00000001 ffff 00000000",  # a length below 0
        "00000001 000174 00000001 ffffffff",  # a number below 0
        "7fffffff",  # more topics than there are bytes
        "00000001 000174 7fffffff 00000000",  # more numbers than there are bytes
    ],
)
def test_numbers_that_make_no_sense_are_refused(data):
    with pytest.raises(BadSnapshot) as caught:
        decode_sticky(bytes.fromhex(data))
    assert caught.value.hint
    assert Remembered() == recall_sticky(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["text", 5])
def test_what_is_not_bytes_is_refused(data):
    for decode in (decode_sticky, decode_cooperative):
        with pytest.raises(BadSnapshot, match="expected bytes"):
            decode(data)


def test_a_member_that_sends_nothing_remembers_nothing():
    assert [Remembered(), Remembered()] == [recall_sticky(None), recall_sticky(b"")]
    assert [-1, -1, -1] == [recall_generation(None), recall_generation(b""), recall_generation(b"\xff\xff\xff\x00")]


@pytest.mark.parametrize(
    "write",
    [
        lambda: encode_sticky(Remembered(), version=2),
        lambda: encode_cooperative(2**31),
        lambda: encode_cooperative(None),
        lambda: encode_sticky(Remembered(owned=(("t" * 2**15, 0),))),
    ],
)
def test_what_cannot_be_written_is_refused(write):
    with pytest.raises(InvalidInput):
        write()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"owned": "t0"}, "owned"),
        ({"owned": [("t", "0")]}, "owned"),
        ({"owned": [("t", -1)]}, "owned"),
        ({"owned": [("t", 2**31)]}, "owned"),
        ({"owned": [(1, 0)]}, "owned"),
        ({"generation": "1"}, "generation"),
        ({"generation": 2**31}, "generation"),
        ({"generation": None}, "generation"),
    ],
)
def test_what_nobody_can_remember_is_refused(fields, named):
    with pytest.raises(InvalidInput) as caught:
        Remembered(**fields)
    assert named == caught.value.field
    assert caught.value.hint


def test_a_generation_below_none_is_none():
    assert Remembered() == Remembered(owned=[], generation=-7)
