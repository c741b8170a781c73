"""Seeds of the scene of a map: every promise holds at quorum, and each planted bug breaks one."""

from dataclasses import replace

import pytest

from tests.shards.replicas.planted import BUGS
from tests.shards.replicas.scene import THREE_NODES, TWO_AND_TWO, play

SEEDS, SOAKED, PLANTED = 8, 1_000, 40


@pytest.mark.parametrize("setting", [THREE_NODES, TWO_AND_TWO], ids=["three-nodes", "two-and-two"])
def test_seeds_hold_every_promise(setting):
    played = [play(seed, setting) for seed in range(SEEDS)]
    assert [] == [(seed, str(each)) for seed, end in enumerate(played) for each in end.broken]
    assert sum(end.acknowledged for end in played) > 40 * SEEDS
    assert sum(end.gets for end in played) > 80 * SEEDS
    assert sum(end.sent_again for end in played) > SEEDS
    assert sum(end.faults for end in played) > 10 * SEEDS


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("setting", [THREE_NODES, TWO_AND_TWO], ids=["three-nodes", "two-and-two"])
def test_many_seeds_hold_every_promise(setting):
    for seed in range(SEEDS, SOAKED):
        assert [] == play(seed, setting).broken, seed


def test_a_seed_repeats():
    assert play(3).digest == play(3).digest


@pytest.mark.parametrize("plant", BUGS)
def test_a_planted_bug_breaks_a_promise(plant, monkeypatch):
    plant(monkeypatch)
    assert any(play(seed).broken for seed in range(PLANTED))


def test_without_write_back_a_later_get_may_show_an_older_version():
    setting = replace(THREE_NODES, read_repair=False)
    found = (play(seed, setting).broken for seed in range(PLANTED))
    assert {2} == {each.promise for each in next(filter(None, found))}
