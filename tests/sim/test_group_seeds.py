"""Seeds of the group's scenario: hundreds hold every invariant, come to rest, and use every row of the hand-over."""

import re

import pytest

from apportion.groups.handover import TRANSITIONS
from tests.sim.scenarios.__main__ import main
from tests.sim.scenarios.group import row_name
from tests.sim.scenarios.scenario import play
from tests.sim.test_seeds import played, start

FIRST, SEEDS, REPEATED = 2_150, 200, 20  # `make soak` plays more, and seeds that nobody has played
HUNDREDS = range(2_080, 2_580)
SQLITE_SEEDS, MORE_SQLITE_SEEDS = 20, 40
GROUP = ("--scenario", "group")
ROWS = {row_name(*row) for row in TRANSITIONS}


@pytest.mark.slow
@pytest.mark.timeout(1_000)
def test_many_seeds_hold_reach_what_is_rare_and_are_the_same_under_another_hash_seed():
    middle, end = FIRST + SEEDS // 2, FIRST + SEEDS
    hashes, printed = played(
        start(FIRST, middle - 1, *GROUP, hash_seed=1), start(middle, end - 1, *GROUP, hash_seed=2), timeout=900
    )
    assert list(range(FIRST, end)) == sorted(hashes)
    assert len(set(hashes.values())) == SEEDS
    used = {row for row in ROWS if f"{row} " in printed}
    assert len(used) >= 0.95 * len(ROWS), f"not used: {sorted(ROWS - used)}"
    ends = ["part ends: DuplicateMember", "part ends: leaves", "watch: Compacted", "watch: StoreWentBack"]
    writes = ["fenced off", "wrote, perhaps", "commit: LeaseLost", "commit: StoreWentBack", "answer: Unknown"]
    assert [] == [name for name in [*ends, *writes] if f"{name} " not in printed]
    assert re.search(r"longest: BoundedOrphan \d", printed)
    again, _ = played(start(FIRST, FIRST + REPEATED - 1, *GROUP, hash_seed=77))
    assert {seed: hashes[seed] for seed in range(FIRST, FIRST + REPEATED)} == again


@pytest.mark.soak
@pytest.mark.timeout(1_000)
def test_five_hundred_seeds_hold_every_invariant_and_come_to_rest():
    hashes, _ = played(start(HUNDREDS[0], HUNDREDS[-1], *GROUP, hash_seed=1), timeout=900)
    assert list(HUNDREDS) == sorted(hashes)


@pytest.mark.parametrize(
    ("first", "end"),
    [
        pytest.param(0, SQLITE_SEEDS, marks=pytest.mark.slow),
        pytest.param(SQLITE_SEEDS, MORE_SQLITE_SEEDS, marks=pytest.mark.soak),
    ],
)
def test_groups_hold_over_the_shipped_sqlite_store_too(first, end):
    hashes, _ = played(start(first, end - 1, *GROUP, "--store", "sqlite", hash_seed=1))
    assert list(range(first, end)) == sorted(hashes)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_a_seed_of_groups_holds_and_repeats(seed):
    report = play(seed, scenario="group")
    assert () == report.violations
    assert report.digest == play(seed, scenario="group", story=True).digest
    assert report.seconds > 12


@pytest.mark.slow
def test_the_story_of_a_group_tells_its_log(capsys):
    gained = r"\(g: m\d gained 0: epoch 1, nobody owned it"
    stories = {seed: "\n".join(play(seed, scenario="group", story=True).story) for seed in range(4)}
    seed = next(seed for seed, story in stories.items() if re.search(gained, story))
    assert 0 == main([str(seed), *GROUP])
    printed = capsys.readouterr().out
    assert re.search(gained, printed)
    assert f"trace {play(seed, scenario='group').digest}" in printed
    assert 0 == main(["--seeds", "3..4", *GROUP])
    assert "2 seeds, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize("seed", [2342, 4069])
def test_members_that_leave_hold_every_invariant(seed):
    assert () == play(seed, scenario="group").violations
