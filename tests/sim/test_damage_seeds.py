"""Seeds of damaged records: while somebody writes bytes over records, no token comes twice, and all comes to rest."""

import pytest

from tests.sim.scenarios.scenario import play
from tests.sim.test_seeds import played, start

DAMAGE = ("--scenario", "damage")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_a_seed_of_damaged_records_holds_and_repeats(seed):
    report = play(seed, scenario="damage")
    assert () == report.violations
    assert report.digest == play(seed, scenario="damage").digest


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param(0, 39, marks=pytest.mark.slow),
        *(pytest.param(500 * each, 500 * each + 499, marks=pytest.mark.soak) for each in range(7)),
    ],
)
@pytest.mark.timeout(1_000)
def test_seeds_of_damaged_records_come_to_rest_once_they_are_mended(first, last):
    hashes, printed = played(start(first, last, *DAMAGE, hash_seed=1), timeout=900)
    assert list(range(first, last + 1)) == sorted(hashes)
    assert "damaged record " in printed
