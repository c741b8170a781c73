"""Seeds of the tasks' scenario: hundreds hold every invariant, and everything is served once nothing fails."""

import re

import pytest

from tests.sim.scenarios.scenario import play
from tests.sim.scenarios.task_functions import BAD, USUAL
from tests.sim.scenarios.task_nemesis import DAMAGE, KINDS
from tests.sim.test_seeds import LOST, played, start

TASKS, SQLITE = ("--scenario", "tasks"), ("--scenario", "tasks", "--store", "sqlite")
FIRST, SEEDS, REPEATED = 0, 440, 12  # `make soak` plays more
SQLITE_SEEDS, MORE_SEEDS = 60, 4_000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_seeds_of_tasks_hold_reach_what_is_rare_and_are_the_same_under_another_hash_seed():
    middle, end = FIRST + SEEDS // 2, FIRST + SEEDS
    hashes, printed = played(
        start(FIRST, middle - 1, *TASKS, hash_seed=1), start(middle, end - 1, *TASKS, hash_seed=2), timeout=600
    )
    assert list(range(FIRST, end)) == sorted(hashes)
    assert len(set(hashes.values())) == SEEDS
    blows = ({DAMAGE, *KINDS} - {"lost commit"}) | {f"commit lost: its {part}" for part in LOST}
    runs = [f"runs {each.task_options.name}" for each in (*USUAL, *BAD)]
    suspects = ["runs poison as a suspect", "runs quick as a suspect", "runs plain as a suspect"]
    ends = ["turn: LeaseLost", "turn: StoreWentBack", "enqueue: StoreWentBack", "an enqueue is unknown"]
    assert [] == [name for name in [*blows, *runs, *suspects, *ends, "a worker leaves"] if f"{name} " not in printed]
    assert re.search(r"longest: RetakenInTime \d", printed)
    again, _ = played(start(FIRST, FIRST + REPEATED - 1, *TASKS, hash_seed=77))
    assert {seed: hashes[seed] for seed in range(FIRST, FIRST + REPEATED)} == again


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_tasks_in_the_shipped_sqlite_store_hold_in_the_world_too():
    half = SQLITE_SEEDS // 2
    hashes, printed = played(
        start(0, half - 1, *SQLITE, hash_seed=1), start(half, SQLITE_SEEDS - 1, *SQLITE, hash_seed=2), timeout=600
    )
    assert list(range(SQLITE_SEEDS)) == sorted(hashes)
    assert [] == [each for each in ("runs transfers ", f"{DAMAGE} ") if each not in printed]


@pytest.mark.soak
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("options", [TASKS, SQLITE], ids=["memory", "sqlite"])
def test_thousands_of_seeds_of_tasks_hold(options):
    first, count = SEEDS, MORE_SEEDS if options == TASKS else MORE_SEEDS // 4
    middle, end = first + count // 2, first + count
    hashes, _ = played(
        start(first, middle - 1, *options, hash_seed=1), start(middle, end - 1, *options, hash_seed=2), timeout=2_900
    )
    assert list(range(first, end)) == sorted(hashes)


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_seed_of_tasks_holds_and_repeats(seed, store):
    report = play(seed, scenario="tasks", store=store)
    assert () == report.violations
    assert report.digest == play(seed, scenario="tasks", store=store, story=True).digest
    assert report.seconds > 8
