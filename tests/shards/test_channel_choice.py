"""The choice of a channel: the first fact that makes logical replication impossible is named."""

from dataclasses import replace

import pytest

from apportion.shards.postgres.replication.choice import ReplicationFacts, chosen, obstacle_in, warning_of
from apportion.shards.postgres.replication.names import object_name, slot_name
from tests.shards.move_rig import token

FIT = ReplicationFacts(
    release=15,
    wal_level="logical",
    slots=3,
    senders=3,
    origins=3,
    workers=2,
    copies=2,
    may_publish=True,
    may_subscribe=True,
)


def test_two_fit_servers_have_a_native_channel():
    assert "" == obstacle_in("one", FIT, "two", FIT)
    assert "native" == chosen("auto", "").kind


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"release": 14}, "shard one runs PostgreSQL 14, older than 15"),
        ({"wal_level": "replica"}, "wal_level of shard one is replica, not logical"),
        ({"slots": 2}, "max_replication_slots of shard one leaves 2, and a move needs 3"),
        ({"senders": 0}, "max_wal_senders of shard one leaves 0, and a move needs 3"),
        ({"may_publish": False}, "the role of shard one may not replicate, or may not create in its database"),
        ({"unfit": ("place is partitioned",)}, "table place is partitioned in shard one"),
        (
            {"keeps_bounded": False},
            "max_slot_wal_keep_size of shard one is -1: see --allow-unbounded-wal",
        ),
    ],
)
def test_a_source_that_cannot_publish_is_told(changed, words):
    assert words == obstacle_in("one", replace(FIT, **changed), "two", FIT)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"release": 14}, "shard two runs PostgreSQL 14, older than 15"),
        ({"origins": 1}, "max_replication_slots of shard two leaves 1, and a move needs 3"),
        ({"workers": 1}, "max_logical_replication_workers of shard two leaves 1, and a move needs 2"),
        ({"may_subscribe": False}, "the role of shard two may not subscribe"),
        ({"copies": 5}, "max_replication_slots of shard one leaves 3, and a move needs 6"),
    ],
)
def test_a_target_that_cannot_subscribe_is_told(changed, words):
    assert words == obstacle_in("one", FIT, "two", replace(FIT, **changed))


def test_moves_at_once_need_room_for_all_of_them_and_those_under_way_have_a_part_of_it():
    wide = replace(FIT, slots=12, senders=12, origins=12, workers=8)
    assert "" == obstacle_in("one", wide, "two", wide, at_once=4)
    words = "max_replication_slots of shard one leaves 12, and 5 moves at once need 15"
    assert words == obstacle_in("one", wide, "two", wide, at_once=5)
    begun = replace(wide, slots=3, senders=3, origins=3, workers=2, own=(9, 9, 9, 6))
    assert "" == obstacle_in("one", begun, "two", begun, at_once=4)
    full = replace(wide, workers=1, own=(0, 0, 0, 6))
    words = "max_logical_replication_workers of shard two leaves 7, and 4 moves at once need 8"
    assert words == obstacle_in("one", wide, "two", full, at_once=4)


def test_facts_that_only_the_other_side_needs_do_not_matter():
    source = replace(FIT, origins=0, workers=0, may_subscribe=False, copies=9)
    target = replace(FIT, slots=0, senders=0, may_publish=False, wal_level="replica", keeps_bounded=False)
    assert "" == obstacle_in("one", source, "two", target)


@pytest.mark.parametrize(("wished", "kind"), [("keys", "keys"), ("native", "keys"), ("auto", "keys")])
def test_an_obstacle_is_the_reason_of_a_log_of_keys(wished, kind):
    choice = chosen(wished, "wal_level of shard one is replica, not logical")
    assert kind == choice.kind
    assert "wal_level of shard one is replica" in choice.reason


def test_a_log_without_a_bound_is_told_with_a_native_channel():
    assert "" == warning_of("one", FIT)
    warning = warning_of("one", replace(FIT, keeps_bounded=False))
    assert "max_slot_wal_keep_size of shard one" in chosen("auto", "", warning).reason
    assert "max_slot_wal_keep_size" not in chosen("auto", "no way", warning).reason


def test_the_log_of_keys_is_taken_when_it_is_asked_for():
    assert "keys" == chosen("keys", "").kind


def test_names_tell_moves_sets_and_movers_apart_and_fit_a_slot():
    names = {
        object_name("world", "m1"),
        object_name("moon", "m1"),
        object_name("world", "M1"),
        object_name("world", "m2"),
    }
    assert 4 == len(names)
    name = object_name("world", "é-Move/" * 20)
    slots = {slot_name(name, token(epoch)) for epoch in (1, 2)}
    assert 2 == len(slots)
    assert all(len(each) <= 63 and set(each) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for each in slots)
