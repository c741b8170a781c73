"""A member that leaves is no death, whatever it is given at the last moment."""

import random
from dataclasses import replace

import pytest

from tests.sim.scene import HABITS, TTL_SECONDS, Scene

SEEDS = pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])


def deaths(scene):
    """Return the sessions that count as deaths of partitions."""
    return {each: owned.ownership.ended for each, owned in scene.view.own.items() if owned.ownership.ended}


@SEEDS
def test_what_a_member_was_given_when_it_asked_to_leave_goes_back_before_it_does(seed):
    with Scene(seed) as scene:
        scene.begin("a")
        scene.start("b")
        scene.until(lambda: scene.owned_by("b"), step=0.0005)  # which no watch has told b yet
        scene.leave("b")
        scene.until_settled("a")
        assert {} == deaths(scene)


@SEEDS
def test_a_gift_that_comes_late_to_a_member_that_leaves_is_refused(seed):
    draw = random.Random(seed)
    with Scene(seed, partitions=6) as scene:
        scene.begin("a", "c")
        scene.post.keep(lambda asked: any(b'"owner":"b"' in put.value for put in asked.puts), draw.uniform(0, 0.06))
        scene.start("b")
        scene.until(lambda: "b" in scene.view.target.owners, step=0.0005)
        scene.wait(draw.uniform(0, 0.02))
        scene.leave("b")
        scene.until_settled("a", "c")
        assert 1 == len(scene.post.delayed)
        assert {} == deaths(scene)


@pytest.mark.parametrize("work_seconds", [0.05, 60.0])
@SEEDS
def test_a_member_goes_in_bounded_time_though_the_store_is_away(seed, work_seconds):
    draw = random.Random(seed)
    with Scene(seed, drain_seconds=4.0) as scene:
        scene.begin("a", "b")
        scene.workers["b"]._habits = replace(HABITS, most_seconds=work_seconds, is_deaf=True)
        scene.wait(0.5)
        scene.world.troubles.away_until = scene.world.now + 300
        scene.wait(draw.uniform(0, 3 * TTL_SECONDS))
        driver = scene.driver("b")
        scene.spawn("b", scene.workers["b"].leave())
        scene.until(lambda: scene.driver("b") is not driver, seconds=4.0 + 3 * TTL_SECONDS)
        scene.world.kill("b")
        scene.world.troubles.away_until = scene.world.now
        scene.until_settled("a")
