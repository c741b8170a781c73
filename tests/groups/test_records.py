"""Records: what is written is read back, newer releases may say more, and damage is named."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import BadSnapshot, InvalidInput
from apportion.groups.view.fields import MOST
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import (
    MAX_PARTITIONS,
    GroupRecord,
    MemberRecord,
    OwnershipRecord,
    Target,
    checked_controller,
    checked_group,
    checked_id,
    checked_partitions,
    decoded,
    decoded_target,
    encoded,
    encoded_target,
    later_format,
    led_by,
    partition_of,
)
from apportion.groups.view.seal import sealed, unsealed

NAMES = st.text("abcdefgh-0", min_size=1, max_size=8)


@given(st.lists(st.none() | NAMES, min_size=1, max_size=50), st.booleans(), st.lists(NAMES))
def test_targets_are_read_back(owners, is_paused, idle):
    target = Target(generation=3, digest="d", owners=tuple(owners), is_paused=is_paused, idle=tuple(idle))
    assert target == decoded_target(encoded_target(target))
    assert all(target.owner(each) == (None if is_paused else owner) for each, owner in enumerate(owners))


@given(NAMES, st.floats(0, 10), st.lists(NAMES, max_size=8), st.dictionaries(NAMES, NAMES), st.integers(0, 9))
def test_members_are_read_back(nonce, weight, zone, labels, left):
    weight = round(weight, 6)
    record = MemberRecord(nonce=nonce, weight=weight, zone=tuple(zone), labels=labels, left_session=left)
    assert record == decoded(MemberRecord, encoded(record))


@given(NAMES, st.integers(0, 10**18 - 1))
def test_a_controller_is_read_back(member_id, session):
    assert led_by(member_id, session) == checked_controller(led_by(member_id, session).encode())


@pytest.mark.parametrize("session", ["", "-1", "1.0", "\u0663", "9" * 19, "9" * 5_000])
def test_a_controller_of_a_session_that_no_store_can_give_is_refused(session):
    with pytest.raises(BadSnapshot, match=r"controller is .*, expected an id and a session"):
        checked_controller(f"a {session}".encode())


def test_a_controller_of_a_wrong_id_is_shown_as_it_was_written():
    with pytest.raises(BadSnapshot, match="id of the controller is 'record/record', expected an id without /"):
        checked_controller(b"record/record 5")


@given(st.none() | NAMES, st.integers(0, MOST), st.integers(0, MOST), st.lists(st.integers(0, MOST), max_size=9))
def test_owners_are_read_back(owner, session, epoch, ended):
    record = OwnershipRecord(owner=owner, session=session, epoch=epoch, ended=tuple(ended))
    assert record == decoded(OwnershipRecord, encoded(record))


def test_numbers_are_those_that_64_bits_with_a_sign_hold():
    newest = encoded(OwnershipRecord(owner="a", session=1, epoch=2**63 - 1))
    assert 2**63 - 1 == decoded(OwnershipRecord, newest).epoch
    with pytest.raises(BadSnapshot, match="epoch"):
        decoded(OwnershipRecord, newest.replace(b"%d" % (2**63 - 1), b"%d" % 2**63))


@pytest.mark.parametrize(
    "record", [GroupRecord(partitions=4), MemberRecord(nonce="n"), OwnershipRecord(owner="a", epoch=3)]
)
def test_a_newer_release_may_say_more_and_an_older_one_less(record):
    said = json.loads(encoded(record)) | {"of the future": [1, {}]}
    assert record == decoded(type(record), json.dumps(said).encode())
    kept = {name: said[name] for name in ("partitions", "nonce", "owner", "session", "epoch") if name in said}
    assert record == decoded(type(record), json.dumps(kept).encode())


@pytest.mark.parametrize(
    ("kind", "field", "within", "beyond"),
    [
        (GroupRecord, "partitions", [1, 262_144], [0, 262_145]),
        (GroupRecord, "quarantine_after", [None, 1, 9], [0, 10]),
        (GroupRecord, "format", [1], [0]),
        (MemberRecord, "weight", [0, 1e-6, 1e9], [-1e-6, 9e-7, 1e9 + 1]),
        (MemberRecord, "zone", [[], ["z"] * 8, ["z" * 255]], [["z"] * 9, ["z" * 256], [""]]),
        (MemberRecord, "labels", [{}, {str(number): "" for number in range(1_000)}], [dict.fromkeys("ab", 1)]),
        (MemberRecord, "labels", [{"a": "\u00e9"}], [{str(number): "" for number in range(1_001)}, {"a": "\ud800"}]),
        (MemberRecord, "grace_seconds", [0, 7 * 86_400], [-1, 7 * 86_400 + 1, float("nan")]),
        (MemberRecord, "left_session", [0, MOST], [-1, MOST + 1]),
        (MemberRecord, "former", [[], [0] * 16], [[-1], [0] * 17]),
        (OwnershipRecord, "session", [0, MOST], [-1, MOST + 1]),
        (OwnershipRecord, "ended", [[], [0] * 9], [[-1], [0] * 10]),
    ],
)
def test_a_field_is_read_at_its_bounds_and_is_damage_beyond_them(kind, field, within, beyond):
    said = {"partitions": 4, "nonce": "n", "owner": "a", "session": 1, "epoch": 1}
    for value in within:
        found = getattr(decoded(kind, json.dumps(said | {field: value}).encode()), field)
        assert (list(found) if isinstance(found, tuple) else found) == value
    for value in beyond:
        with pytest.raises(BadSnapshot, match=field):
            decoded(kind, json.dumps(said | {field: value}).encode())


def test_a_format_above_ours_is_of_a_later_release_and_any_other_is_not():
    said = [2, 1, 0, True, "2", None]
    assert [2, *[None] * 5] == [later_format(json.dumps({"format": each}).encode()) for each in said]
    assert None is later_format(b"{")


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"{}", b'"x"', b"\x00" * 40])
def test_damage_is_named(value):
    for kind in (GroupRecord, MemberRecord, OwnershipRecord):
        with pytest.raises(BadSnapshot, match=r"record is|a JSON object|of \w+ is"):
            decoded(kind, value)
    with pytest.raises(BadSnapshot):
        decoded_target(value)


def test_a_target_whose_owners_are_out_of_range_is_damaged():
    value = encoded_target(Target(generation=1, digest="d", owners=("a", "b")))
    head, _, packed = unsealed("target", value).partition(b"\n")
    fewer = json.loads(head) | {"ids": ["a"]}
    assert b"b" not in json.dumps(fewer["ids"]).encode()
    with pytest.raises(BadSnapshot, match="owners of a target"):
        decoded_target(sealed(json.dumps(fewer).encode() + b"\n" + packed))


def test_a_target_is_read_up_to_the_most_partitions_and_no_further():
    longest = Target(generation=1, digest="d", owners=("a",) * MAX_PARTITIONS)
    assert longest == decoded_target(encoded_target(longest))
    for count in (MAX_PARTITIONS + 1, 2 * MAX_PARTITIONS):
        with pytest.raises(BadSnapshot, match="owners of a target"):
            decoded_target(encoded_target(replace(longest, owners=("a",) * count)))


def test_a_newer_release_may_say_more_in_a_target_and_an_older_one_less():
    target = Target(generation=1, digest="d", owners=("a", None))
    head, _, packed = unsealed("target", encoded_target(target)).partition(b"\n")
    said = json.loads(head) | {"of the future": 1}
    del said["idle"]
    later = sealed(json.dumps(said).encode() + b"\n" + packed)
    assert target == decoded_target(later)
    with pytest.raises(BadSnapshot, match="checksum"):
        decoded_target(later.replace(b'"of the future": 1', b'"of the future": 2'))


def test_of_a_target_no_byte_can_be_another_or_away():
    value = encoded_target(Target(generation=2, digest="d", owners=("a", "b", None), idle=("c",)))
    for place in range(len(value)):
        for changed in (
            value[place : place + 1].swapcase() if value[place : place + 1].isalpha() else b"7",
            b"\xff",
            b"",
        ):
            if changed != value[place : place + 1]:
                with pytest.raises(BadSnapshot):
                    decoded_target(value[:place] + changed + value[place + 1 :])


def test_keys_of_two_groups_never_meet():
    assert not GroupKeys(group="mail").target.startswith(GroupKeys(group="mailers").live)
    assert not GroupKeys(group="mailers").target.startswith(GroupKeys(group="mail").live)


def test_a_key_is_parsed_into_its_parts_and_a_key_outside_of_groups_has_no_prefix():
    keys = GroupKeys(group="mail")
    made = [keys.member("a"), keys.drain("a"), keys.static("a"), keys.own(17), keys.controller, keys.target]
    parts = [("member", "a"), ("drain", "a"), ("static", "a"), ("own", "17"), ("controller", ""), ("target", "")]
    assert [(keys.live, *each) for each in parts] == [GroupKeys.parsed(key) for key in made]
    assert (keys.live, "own", "1/2") == GroupKeys.parsed(f"{keys.live}own/1/2")
    assert ("", "group", "mail") == GroupKeys.parsed(keys.record)
    assert ("", "live", "mail") == GroupKeys.parsed("live/mail")


@pytest.mark.parametrize("name", ["abc", "-1", "+1", "1.0", "", " 1", "017", "0x1", "\u0663", "32", "9" * 5_000, "1/2"])
def test_a_name_that_is_no_number_of_a_partition_is_passed_over(name):
    assert None is partition_of(name, 32)
    assert 31 == partition_of("31", 32)
    assert MAX_PARTITIONS - 1 == partition_of(f"{MAX_PARTITIONS - 1}", MAX_PARTITIONS)


def test_the_name_of_a_group_may_be_as_long_as_that_of_its_table():
    assert "\u00e9" * 100 == checked_group("\u00e9" * 100)
    with pytest.raises(InvalidInput, match="at most 200 bytes"):
        checked_group("\u00e9" * 100 + "x")


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", " a", "x" * 256, None, 3])
def test_a_name_that_cannot_be_part_of_a_key_is_refused(name):
    with pytest.raises(InvalidInput, match="member_id"):
        checked_id("member_id", name)


@pytest.mark.parametrize("count", [0, -1, MAX_PARTITIONS + 1, True, 1.0, "4", None])
def test_a_number_of_partitions_that_no_group_can_have_is_refused(count):
    with pytest.raises(InvalidInput, match="partitions"):
        checked_partitions(count)
