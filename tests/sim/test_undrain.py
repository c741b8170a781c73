"""A drain that is withdrawn, at each step of the hand-over: the member shares the partitions again."""

from dataclasses import replace

import pytest

from tests.sim.scene import HABITS, KEYS, Scene

LONG_WORK = replace(HABITS, most_seconds=2.0)


SLOW = [pytest.param(milliseconds, marks=pytest.mark.slow) for milliseconds in (1, 3, 7, 30, 60, 120, 400)]


@pytest.mark.parametrize("milliseconds", [0, 15, 1500, *SLOW])
def test_a_withdrawn_drain_leaves_every_partition_with_one_owner(milliseconds):
    with Scene(milliseconds) as scene:
        scene.begin("k", weight=0.0)
        scene.start("a", "b")
        scene.until_settled("k", "a", "b")
        scene.drain("b", by="k")
        scene.until(lambda: "b" in scene.view.drains, step=0.0005)
        scene.wait(milliseconds / 1000)
        scene.undrain("b", by="k")
        scene.until(lambda: "b" not in scene.view.drains)
        scene.until_settled("k", "a", "b")
        owners = [owner for owner, _, _ in scene.owners().values()]
        assert {"a": 2, "b": 2} == {each: owners.count(each) for each in "ab"}
        assert KEYS.drain("b") not in scene.world.checker.history.items


@pytest.mark.slow
def test_a_member_that_leaves_meanwhile_asks_for_itself():
    with Scene(1) as scene:
        scene.begin("k", weight=0.0)
        scene.start("a", "b", habits=LONG_WORK)
        scene.until_settled("k", "a", "b")
        scene.drain("b", by="k")
        scene.until(lambda: "b" in scene.view.drains, step=0.0005)
        asked = scene.view.drains["b"].revision
        scene.spawn("b", scene.workers["b"].leave())
        scene.undrain("b", by="k")
        scene.until(lambda: scene.view.drains.get("b") is None or scene.view.drains["b"].revision != asked)
        assert "b" in scene.view.members
        scene.leave("b")
        scene.until_settled("k", "a")
