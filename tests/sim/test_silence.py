"""A connection that is open and says no more costs a quarter of a lease, and no session."""

import pytest

from apportion.sim.facts import Lapsed
from apportion.sim.world.losses import Way
from tests.sim.scene import Scene

SILENCES = 12


@pytest.mark.parametrize("way", [Way.REQUEST, Way.REPLY])
@pytest.mark.parametrize(
    "ttl_seconds", [4.0, *(pytest.param(seconds, marks=pytest.mark.slow) for seconds in (2.0, 6.0, 10.0))]
)
def test_silence_ends_no_session_and_moves_nothing(way, ttl_seconds):
    with Scene(1, ttl_seconds=ttl_seconds) as scene:
        scene.begin("a", "b")
        draw, owners, told = scene.world.draws("silence"), scene.owners(), []
        record = scene.world.checker.add
        scene.world.checker.add = lambda fact: (told.append(fact), record(fact))
        for _ in range(SILENCES):
            name = draw.choice("ab")
            scene.world.troubles.silence(name, scene.world.now, way)
            scene.wait(draw.uniform(0.6, 1.2) * ttl_seconds)
            assert scene.held(name) == scene.owned_by(name)
        assert [] == [fact for fact in told if isinstance(fact, Lapsed)]
        assert owners == scene.owners()
