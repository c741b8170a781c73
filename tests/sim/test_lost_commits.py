"""One commit is lost, each of a story in turn and in each way, and service comes back as soon as it can.

Weather loses a ratio of all messages; here exactly the k-th commit of the group is lost, from any sender.
"""

import pytest

from apportion.groups import member
from apportion.sim.world.losses import Way
from tests.sim.scene import TTL_SECONDS, Scene

SPARE_SECONDS = 1.0


def join(scene):
    scene.start("c")
    return "a", "b", "c"


def leave(scene):
    scene.leave("b")
    return ("a",)


def take_over(scene):
    scene.world.kill("b")
    return ("a",)


def played(story, seed, number=None, way=None, times=1):
    """Play a story in which a commit is lost, perhaps repeatedly; return its time, its commits, and the losses."""
    with Scene(seed) as scene:
        scene.begin("a", "b")
        began, before = scene.world.now, len(scene.world.checker.history.attempts)
        if number is not None:
            scene.world.troubles.losses.lose(number, way, times=times)
        members = story(scene)
        scene.until_settled(*members)
        sent = len(scene.world.checker.history.attempts) - before
        return scene.world.now - began, sent, scene.world.trace.injected.total()


STORIES = [(story, way) for story in (join, leave, take_over) for way in Way]
QUICK = (join, Way.REQUEST)


@pytest.mark.parametrize(
    ("story", "way"),
    [pytest.param(*each, marks=() if each == QUICK else pytest.mark.slow) for each in STORIES],
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
def test_whichever_commit_is_lost_all_is_served_within_a_lease_and_a_second(story, way, seed):
    undisturbed, commits, _ = played(story, seed)
    assert commits >= 3
    took, lost = {}, 0
    for number in range(1, commits + 1):
        took[number], _, injected = played(story, seed, number, way)
        lost += injected
    assert commits == lost
    late = {number: seconds for number, seconds in took.items() if seconds > undisturbed + TTL_SECONDS + SPARE_SECONDS}
    assert {} == late


def late_after_two_losses(story, way):
    """Return the commits that delay service by more than the promise when they and their repeat are lost."""
    undisturbed, commits, _ = played(story, 0)
    took = {number: played(story, 0, number, way, times=2)[0] for number in range(1, commits + 1)}
    return {number: each for number, each in took.items() if each > undisturbed + TTL_SECONDS + SPARE_SECONDS}


@pytest.mark.slow
@pytest.mark.parametrize(("story", "way"), STORIES)
def test_a_commit_that_is_lost_twice_delays_service_no_longer(story, way):
    assert {} == late_after_two_losses(story, way)


@pytest.mark.slow
def test_what_is_lost_twice_and_tried_again_much_later_is_seen(monkeypatch):
    monkeypatch.setattr(member, "AGAIN_SECONDS", 18.0)
    assert {} != late_after_two_losses(join, Way.ERROR)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "silent_seconds"), [(Way.REQUEST, TTL_SECONDS / 4), (Way.REPLY, 0.0), (Way.ERROR, 0.0)]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_request_to_leave_that_is_lost_is_asked_again_at_once(way, silent_seconds, seed):
    with Scene(seed) as scene:
        scene.begin("a", "b")
        scene.world.troubles.losses.lose(1, way, process="b")
        scene.spawn("b", scene.workers["b"].leave())
        took = scene.until(lambda: "b" in scene.view.drains or "b" not in scene.view.members)
        assert 1 == scene.world.trace.injected.total()
        assert took < silent_seconds + 0.05
