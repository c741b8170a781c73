"""Seeds of the keys' scenario: hundreds hold every invariant, and every key goes on once nothing fails any more."""

import re

import pytest

from tests.sim.scenarios.key_play import BAD, USUAL, group_url
from tests.sim.scenarios.scenario import play
from tests.sim.scenarios.task_nemesis import KINDS
from tests.sim.test_seeds import LOST, played, start

KEYS, SQLITE = ("--scenario", "keys"), ("--scenario", "keys", "--store", "sqlite")
SEEDS, SQLITE_SEEDS, REPEATED, MORE_SEEDS = 330, 36, 6, 4_000  # `make soak` plays more


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_seeds_of_keys_hold_reach_what_is_rare_and_are_the_same_under_another_hash_seed():
    middle = SEEDS // 2
    hashes, printed = played(
        start(0, middle - 1, *KEYS, hash_seed=1), start(middle, SEEDS - 1, *KEYS, hash_seed=2), timeout=600
    )
    assert list(range(SEEDS)) == sorted(hashes)
    assert len(set(hashes.values())) == SEEDS
    blows = ({*KINDS} - {"lost commit", "kill of a child"}) | {f"commit lost: its {part}" for part in LOST}
    runs = [f"runs {each.task_options.name}" for each in (*USUAL, *BAD)]
    rare = ["runs poison as a suspect", "row DRAINING QUIET", "turn: LeaseLost", "turn: StoreWentBack"]
    alone = [f"strikes {places}" for places in ("group", "store", "tasks", "store + tasks", "store + tasks + group")]
    assert [] == [name for name in [*blows, *runs, *rare, *alone, "a worker leaves"] if f"{name} " not in printed]
    assert re.search(r"longest: KeyGoesOn \d", printed)
    again, _ = played(start(0, REPEATED - 1, *KEYS, hash_seed=77))
    assert {seed: hashes[seed] for seed in range(REPEATED)} == again


def test_three_hundred_seeds_have_a_store_for_the_group_beside_that_of_the_tasks():
    assert 300 <= sum(group_url(seed) is not None for count in (SEEDS, SQLITE_SEEDS) for seed in range(count))


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_keys_in_the_shipped_sqlite_store_hold_in_the_world_too():
    half = SQLITE_SEEDS // 2
    hashes, _ = played(
        start(0, half - 1, *SQLITE, hash_seed=1), start(half, SQLITE_SEEDS - 1, *SQLITE, hash_seed=2), timeout=600
    )
    assert list(range(SQLITE_SEEDS)) == sorted(hashes)


@pytest.mark.soak
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("options", [KEYS, SQLITE], ids=["memory", "sqlite"])
def test_thousands_of_seeds_of_keys_hold(options):
    first, count = SEEDS, MORE_SEEDS if options == KEYS else MORE_SEEDS // 4
    middle, end = first + count // 2, first + count
    hashes, _ = played(
        start(first, middle - 1, *options, hash_seed=1), start(middle, end - 1, *options, hash_seed=2), timeout=2_900
    )
    assert list(range(first, end)) == sorted(hashes)


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(2))  # the first has one store, the second two
def test_a_seed_of_keys_holds_and_repeats(seed, store):
    report = play(seed, scenario="keys", store=store)
    assert () == report.violations
    assert report.digest == play(seed, scenario="keys", store=store, story=True).digest
    assert report.seconds > 8
