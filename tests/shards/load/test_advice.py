"""The load of a set: shares with bounds that hold, and one next step for each hot spot."""

import time
from collections import Counter
from random import Random
from types import MappingProxyType

from apportion.shards.load.advice import load_advice
from apportion.shards.load.record import LoadRecord
from apportion.shards.load.set_load import set_load
from apportion.shards.pins.key_sample import LoadWindow, key_json
from apportion.shards.slots import SlotTable, hash_slot
from apportion.tables.layout import Version

SLOTS = 64
SHARDS = ("one", "two", "three", "four")
WEIGHTS = dict.fromkeys(SHARDS, 1.0)


def table(shards=SHARDS, pinned=()):
    """Return a table in which the slots go round the shards."""
    owners = {slot: shards[slot % len(shards)] for slot in range(SLOTS)}
    owners |= {SLOTS + place: shards[0] for place, _ in enumerate(pinned)}
    slots = {key.encode(): SLOTS + place for place, key in enumerate(pinned)}
    return SlotTable(
        version=Version(incarnation=1, number=1), hash_slots=SLOTS, owners=owners, pinned=MappingProxyType(slots)
    )


def record(counts, *, sessions=64_000, seconds=10.0, writer="w"):
    keys = {key_json(key): count for key, count in counts.items()}
    window = LoadWindow(writer=writer, seconds=seconds, sessions=sessions, keys=keys)
    return LoadRecord(at=time.time(), window=window)


def keys_of(slot, count):
    """Return keys with a slot."""
    found = (f"key-{number}" for number in range(100_000) if hash_slot(f"key-{number}", SLOTS) == slot)
    return [next(found) for _ in range(count)]


def even(count, *, cool=None):
    """Return one key for each slot, with a count. Slots of the shard four have another count."""
    return {keys_of(slot, 1)[0]: count if cool is None or slot % 4 != 3 else cool for slot in range(SLOTS)}


def test_a_busy_process_weighs_more():
    load = set_load(
        [record({"A": 100}, sessions=900, seconds=1.0), record({"B": 100}, sessions=200, seconds=2.0, writer="v")],
        table(),
        WEIGHTS,
    )
    assert {"A": 0.9, "B": 0.1} == {each.key: round(each.load.share, 6) for each in load.keys}
    assert (1000.0, 2) == (load.sessions_per_second, load.processes)
    assert 100 < load.sampled < 200


def test_the_bounds_of_a_share_hold():
    wrong = 0
    for seed in range(400):
        rng = Random(seed)
        counts = Counter("hot" if rng.random() < 0.2 else f"key-{rng.randrange(50)}" for _ in range(300))
        load = set_load([record(counts)], table(), WEIGHTS)
        (hot,) = [each.load for each in load.keys if each.key == "hot"]
        wrong += not hot.at_least <= 0.2 <= hot.at_most
    assert wrong <= 6


def test_keys_that_nobody_knows_count_without_a_name():
    one = LoadWindow(writer="w", seconds=1.0, sessions=100, keys={'"A"': 1, "": 1, "{": 1, "true": 1})
    load = set_load([LoadRecord(at=0.0, window=one)], table(), WEIGHTS)
    assert [("A", 0.25)] == [(each.key, each.load.share) for each in load.keys]


def test_nothing_sampled_is_no_load_and_no_advice():
    load = set_load([], table(), WEIGHTS)
    assert ((), (), 0.0) == (load.keys, load_advice("world", load), load.sampled)
    few = set_load([record({"A": 63})], table(), WEIGHTS)
    assert () == load_advice("world", few)


def advised(counts, *, shards=SHARDS, weights=None, pinned=()):
    return load_advice(
        "world", set_load([record(counts)], table(shards, pinned), weights or dict.fromkeys(shards, 1.0))
    )


def test_an_even_load_has_no_advice():
    assert () == advised(even(8))


def test_a_key_that_no_shard_can_bear_is_to_be_divided_or_copied():
    (hot,) = keys_of(8, 1)
    found = advised(even(1) | {hot: 400})[0]
    assert ("divide", 8, hot, "") == (found.kind, found.slot, found.key, found.command)
    assert "cache the key, or copy it to 4 nodes with PopularKeys" in found.text
    assert "salt(key, 4, rng)" in found.text


def test_a_slot_that_is_too_hot_by_several_keys_gives_one_away():
    found = advised(even(1) | dict.fromkeys(keys_of(8, 8), 50))[0]
    assert ("isolate", 8, "one") == (found.kind, found.slot, found.shard)
    assert "Several keys have its load" in found.text
    assert found.command.startswith(f"apportion shards isolate URL world {found.key} --to ")


def test_a_key_that_heats_its_shard_moves_away_from_the_other_keys():
    hot, other = keys_of(8, 2)
    (found,) = advised(even(8, cool=4) | {hot: 80, other: 5})
    assert ("isolate", 8, hot, "one") == (found.kind, found.slot, found.key, found.shard)
    assert f"Key '{hot}' has" in found.text
    assert f"apportion shards isolate URL world {hot} --to four --models MODULE:Base" == found.command


def test_a_slot_of_a_pinned_key_moves_whole():
    (found,) = advised(even(8, cool=4) | {"acme": 80}, pinned=("acme",))
    assert ("move", SLOTS, "acme", "one") == (found.kind, found.slot, found.key, found.shard)


def test_a_slot_with_many_keys_moves_to_the_coolest_shard():
    (found,) = advised(even(8, cool=4) | dict.fromkeys(keys_of(8, 8), 10))
    assert ("move", 8, "one") == (found.kind, found.slot, found.shard)
    assert "apportion shards plan URL world --move 8 --to four" == found.command


def test_a_shard_with_many_warm_slots_gets_less_weight():
    (found,) = advised({key: 20 if place % 4 == 0 else 6 for place, key in enumerate(even(1))})
    assert ("weigh", "one", None) == (found.kind, found.shard, found.slot)
    assert "Its load lies in many slots" in found.text
    assert "--weight one=0.47" in found.command


def test_a_slot_that_would_heat_any_other_shard_stays_and_others_leave():
    (hot,) = keys_of(0, 1)
    (found,) = advised(even(4) | {hot: 180}, shards=("one", "two"))
    assert ("weigh", "one") == (found.kind, found.shard)
    assert f"Slot 0 with key '{hot}' has" in found.text


def test_the_only_shard_and_shards_without_a_weight_get_no_slot():
    assert () == advised(even(1) | {"hot": 40}, shards=("one",))
    (hot,) = keys_of(8, 1)
    weights = WEIGHTS | {"two": 0.0, "three": 0.0, "four": 0.0}
    assert not [each for each in advised(even(4) | {hot: 100}, weights=weights) if each.command]


def test_a_slot_that_moves_leaves_both_shards_cooler_than_the_hot_one_was():
    keys, moves = list(even(1)), 0
    for seed in range(100):
        rng = Random(seed)
        counts = {key: 1 + int(200 * rng.random() ** 8) for key in keys}
        load = set_load([record(counts)], table(), WEIGHTS)
        before = {each.shard: each.load.share for each in load.shards}
        for found in load_advice("world", load):
            if found.kind in ("move", "isolate"):
                (moved,) = [each.load.share for each in load.slots if each.slot == found.slot]
                target = found.command.partition(" --to ")[2].split()[0]
                assert max(before[found.shard] - moved, before[target] + moved) < before[found.shard]
                moves += 1
    assert moves > 20
