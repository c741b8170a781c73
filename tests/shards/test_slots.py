"""Slots of a set: the slot of a key, names of partitions, and tables that are refused."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Assignment, Slots, Topology, balance
from apportion.errors import BadSnapshot, InvalidInput
from apportion.shards.slots import SlotTable, check_hash_slots, partition_of, partitions, shard_key_bytes
from apportion.tables.layout import Version

VERSION = Version(incarnation=1, number=7)
ONE = Topology(["one", "two"])
keys = st.one_of(
    st.text(max_size=40), st.binary(max_size=40), st.integers(-(2**63), 2**63 - 1), st.uuids(allow_nil=True)
)


def table(names, count=None):
    rows = tuple((place % 2,) for place in range(len(names) if count is None else count))
    return SlotTable.of(VERSION, Assignment(topology=ONE, rows=rows, names=None if count else tuple(names)))


@given(keys)
def test_a_key_has_the_slot_that_slots_of_the_same_number_gives_it(key):
    assignment = balance.slots(ONE, count=64)
    assert Slots(assignment).slot(key) == SlotTable.of(VERSION, assignment).slot(key)


@given(st.dictionaries(keys.map(shard_key_bytes), st.integers(64, 16_383), max_size=8))
def test_pinned_keys_have_their_own_slots_and_no_other_key_has_them(pinned):
    pinned = dict(zip(pinned, sorted({*pinned.values()}), strict=False))
    read = table(partitions(64, pinned))
    assert pinned == {key: read.slot(key) for key in pinned}
    assert pinned == read.pinned
    assert 64 == read.hash_slots
    others = [key for key in (b"some", b"other", b"keys") if key not in pinned]
    assert all(read.slot(key) < 64 for key in others)


@given(st.lists(st.tuples(keys, keys), min_size=2, max_size=2))
def test_two_keys_of_two_columns_are_one_only_if_both_columns_agree(found):
    first, second = found
    same = all(shard_key_bytes(one) == shard_key_bytes(other) for one, other in zip(first, second, strict=True))
    assert same == (shard_key_bytes(first) == shard_key_bytes(second))


def test_the_shard_of_a_slot_is_the_first_owner():
    read = table((), count=4)
    assert ["one", "two", "one", "two"] == [read.shard(slot) for slot in range(4)]
    with pytest.raises(InvalidInput, match="slot is 4"):
        read.shard(4)


@pytest.mark.parametrize(
    "names",
    [
        ("0", "1", "x"),
        ("0", "2"),
        ("0", "1", "2"),
        ("0", "01"),
        ("0", "1", "16384=a"),
        ("0", "1", "9=a", "10=a"),
        ("0", "1", "1=a"),
        ("0", "1", "-1"),
        ("0", "1", "²"),
    ],
)
def test_a_table_whose_partitions_are_not_the_slots_of_a_set_is_refused(names):
    with pytest.raises((BadSnapshot, InvalidInput)):
        table(names)


@pytest.mark.parametrize("count", [0, 3, 8193, 16_384, True, 2.0, "64", -2])
def test_the_number_of_hash_slots_is_a_power_of_two_up_to_8192(count):
    with pytest.raises(InvalidInput, match="slots is"):
        check_hash_slots(count)


@pytest.mark.parametrize("key", [None, 1.5, True, ("a",), (), ("a", None), ["a"], 2**63])
def test_a_value_that_no_key_can_be_is_refused(key):
    with pytest.raises(InvalidInput):
        table((), count=4).slot(key)


def test_a_uuid_is_the_key_of_its_characters():
    one = UUID(int=7)
    assert table((), count=64).slot(one) == table((), count=64).slot(str(one))


def test_the_name_of_a_pinned_slot_encodes_every_byte_that_could_be_misread():
    assert "9000=a%2Fb%3D%25%00%FF" == partition_of(9000, b"a/b=%\x00\xff")
