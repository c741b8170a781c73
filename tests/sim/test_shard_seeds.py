"""Seeds of the shards' scenario: a thousand hold S1 to S9, and reach all that makes moves hard."""

import re

import pytest

from apportion.shards.mover.stop_points import labels
from apportion.shards.reshard import BEFORE_SWITCH
from tests.sim.scenarios.scenario import play
from tests.sim.test_seeds import played, start

SHARDS = ("--scenario", "shards")
SEEDS, REPEATED, MORE_SEEDS = 1_000, 10, 6_000  # `make soak` plays more

# The operator lists moves; an attempt that is fenced was verified before; few retreats come after an announcement, and
# few aborts on a way back. Sets of seeds are by hash, so nothing is joined.
_RARE = ("list", "tail", "withdraw", "clean-back", "join")

# Each must happen so often in a thousand seeds, or the scenario says too little.
OFTEN = {
    "move begun": 1_000,
    "move switched": 700,
    "a slot is to come back": 1_000,
    "move aborted": 300,
    "move reversed": 300,
    "retreat": 30,
    "an act of an older mover is refused": 100,
    "an act of a mover arrives after one that was sent later": 30,
    "a router arrives after 1 refreshes": 3_000,
    "a bare write is refused": 3_000,
    "a write is unknown": 1_000,
    "wish pause": 500,
    "pin begun": 500,
    "step take-back.after": 100,
    "a pin is refused: InvalidInput": 50,
}


def counts(printed):
    """Return how often each transition was reached."""
    found = re.findall(r"(?:^covered: |, )([^,\n]+) (\d+)(?=,|$)", printed, re.MULTILINE)
    sums = dict.fromkeys(dict(found), 0)
    for name, count in found:
        sums[name] += int(count)
    return sums


@pytest.mark.slow
@pytest.mark.timeout(1_600)
def test_a_thousand_seeds_of_shards_hold_reach_what_is_hard_and_are_the_same_under_another_hash_seed():
    middle = SEEDS // 2
    hashes, printed = played(
        start(0, middle - 1, *SHARDS, hash_seed=1), start(middle, SEEDS - 1, *SHARDS, hash_seed=2), timeout=1_500
    )
    assert list(range(SEEDS)) == sorted(hashes)
    assert len(set(hashes.values())) == SEEDS
    found = counts(printed)
    assert [] == [(name, found.get(name, 0), least) for name, least in OFTEN.items() if found.get(name, 0) < least]
    steps = {label for label in labels() if label.partition(".")[0] not in _RARE}
    assert set() == {label for label in steps if f"step {label}" not in found}
    assert set() == {state for state in BEFORE_SWITCH if f"move {state}" not in found}
    assert "commit lost: its " in printed
    again, _ = played(start(0, REPEATED - 1, *SHARDS, hash_seed=77))
    assert {seed: hashes[seed] for seed in range(REPEATED)} == again


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_thousands_of_seeds_of_shards_hold():
    middle, end = SEEDS + MORE_SEEDS // 2, SEEDS + MORE_SEEDS
    hashes, _ = played(
        start(SEEDS, middle - 1, *SHARDS, hash_seed=1), start(middle, end - 1, *SHARDS, hash_seed=2), timeout=3_500
    )
    assert list(range(SEEDS, end)) == sorted(hashes)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_a_seed_of_shards_holds_and_repeats(seed):
    report = play(seed, scenario="shards")
    assert () == report.violations
    assert report.digest == play(seed, scenario="shards", story=True).digest
    assert report.seconds > 5
