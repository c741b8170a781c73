"""Seeds of the cron scenario: hundreds hold every invariant, and every slot fires once nothing fails any more."""

import pytest

from tests.sim.scenarios.cron_play import KINDS
from tests.sim.scenarios.scenario import play
from tests.sim.test_seeds import LOST, played, start

CRON, SQLITE = ("--scenario", "cron"), ("--scenario", "cron", "--store", "sqlite")
SEEDS, REPEATED = 250, 8  # `make soak` plays more
SQLITE_SEEDS, MORE_SEEDS = 50, 4_000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_seeds_of_cron_hold_reach_what_is_rare_and_are_the_same_under_another_hash_seed():
    middle = SEEDS // 2
    hashes, printed = played(
        start(0, middle - 1, *CRON, hash_seed=1), start(middle, SEEDS - 1, *CRON, hash_seed=2), timeout=600
    )
    assert list(range(SEEDS)) == sorted(hashes)
    assert len(set(hashes.values())) == SEEDS
    blows = ({*KINDS} - {"lost commit"}) | {f"commit lost: its {part}" for part in LOST}
    acts = [f"an operator: {act}" for act in ("pause", "resume", "trigger", "schedule", "unschedule")]
    releases = [f"a release: {act}" for act in ("add", "change", "remove")]
    ends = ["fire: StoreWentBack", "change", "a node leaves"]
    assert [] == [name for name in [*blows, *acts, *releases, *ends] if f"{name} " not in printed]
    again, _ = played(start(0, REPEATED - 1, *CRON, hash_seed=77))
    assert {seed: hashes[seed] for seed in range(REPEATED)} == again


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_schedules_in_the_shipped_sqlite_store_hold_in_the_world_too():
    half = SQLITE_SEEDS // 2
    hashes, _ = played(
        start(0, half - 1, *SQLITE, hash_seed=1), start(half, SQLITE_SEEDS - 1, *SQLITE, hash_seed=2), timeout=600
    )
    assert list(range(SQLITE_SEEDS)) == sorted(hashes)


@pytest.mark.soak
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("options", [CRON, SQLITE], ids=["memory", "sqlite"])
def test_thousands_of_seeds_of_cron_hold(options):
    first, count = SEEDS, MORE_SEEDS if options == CRON else MORE_SEEDS // 4
    middle, end = first + count // 2, first + count
    hashes, _ = played(
        start(first, middle - 1, *options, hash_seed=1), start(middle, end - 1, *options, hash_seed=2), timeout=2_900
    )
    assert list(range(first, end)) == sorted(hashes)


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(2))
def test_a_seed_of_cron_holds_and_repeats(seed, store):
    report = play(seed, scenario="cron", store=store)
    assert () == report.violations
    assert report.digest == play(seed, scenario="cron", store=store, story=True).digest
    assert report.seconds > 7
