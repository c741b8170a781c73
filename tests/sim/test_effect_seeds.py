"""Seeds of effects: an effect under a key happens once, whatever fails, and is never called done before it happens."""

import pytest

from tests.sim.scenarios.scenario import play
from tests.sim.test_seeds import played, start

EFFECTS = ("--scenario", "effects")
SEEDS, SQLITE_SEEDS, MORE_SEEDS = 30, 10, 1_000  # of each half; `make soak` plays more


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_a_seed_of_effects_holds_and_repeats(store):
    report = play(0, scenario="effects", store=store)
    assert () == report.violations
    assert report.digest == play(0, scenario="effects", store=store).digest


@pytest.mark.parametrize(
    ("first", "count", "store"),
    [
        pytest.param(0, SEEDS, "memory", marks=pytest.mark.slow),
        pytest.param(0, SQLITE_SEEDS, "sqlite", marks=pytest.mark.slow),
        pytest.param(2 * SEEDS, MORE_SEEDS, "memory", marks=pytest.mark.soak),
        pytest.param(2 * SQLITE_SEEDS, MORE_SEEDS // 4, "sqlite", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(1_000)
def test_seeds_of_effects_hold_every_invariant_and_everything_is_served(first, count, store):
    halves = [(first, first + count - 1, 1), (first + count, first + 2 * count - 1, 2)]
    options = (*EFFECTS, "--store", store)
    hashes, printed = played(*[start(*half, *options, hash_seed=seed) for *half, seed in halves], timeout=900)
    assert list(range(first, first + 2 * count)) == sorted(hashes)
    ends = [f"transaction lost: its {end} " for end in ("commit", "reply")] if store == "sqlite" else []
    assert [] == [each for each in ("runs charges ", "runs charges as a suspect ", *ends) if each not in printed]
