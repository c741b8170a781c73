"""Members that start, leave, are killed and paused by a seed, and servers that are killed under them.

After each round the running members share all partitions, and each writes its own. No member that should run has ended,
and no write was stale.
"""

import asyncio
import signal
from random import Random
from time import sleep

import pytest

from tests.live.test_groups_guarded import stale
from tests.live.test_groups_nasty import ENGINES, is_served, open_crew, rig  # noqa: F401 - the last two are fixtures

pytestmark = pytest.mark.live
PARTITIONS, MOST_MEMBERS, GROUPS = 24, 5, 10


class Chaos:
    """The faults upon one crew."""

    def __init__(self, crew, rig, draw):  # noqa: F811
        self.crew, self.rig, self.draw = crew, rig, draw
        self.story, self.paused, self.started = [], [], 0

    def start(self):
        name = f"m{self.started}"
        self.started += 1
        self.crew.launch(name)

    def round(self):
        """Let some things happen, close upon each other; then wait until all is well again."""
        acts = [self.start, self.start, self.leave, self.kill, self.pause, self.crash]
        for _ in range(self.draw.randint(1, 3)):
            sleep(self.draw.choice([0.0, 0.01, 0.1, 0.5]))
            running = sorted(self.crew.processes.keys() - set(self.paused))
            act = self.draw.choice(acts)
            if (act == self.start and len(running) < MOST_MEMBERS) or (act != self.start and len(running) > 1):
                self.story.append(act.__name__)
                act() if act in (self.start, self.crash) else act(self.draw.choice(running))
        if self.paused:
            sleep(self.draw.choice([0.1, 0.9, 1.5, 2.5]) * self.rig.ttl_seconds)
            self.crew.send(signal.SIGCONT, *self.paused)
            self.paused.clear()
        self.story.append("|")
        start = len(self.crew.lines)
        self.crew.until_settled()
        self.crew.until("effects", is_served, self.crew, start)

    def leave(self, name):
        self.crew.send(signal.SIGTERM, name)
        assert self.crew.gone(name) in (0, -signal.SIGTERM)  # it may not have begun yet

    def kill(self, name):
        self.crew.kill(name)

    def pause(self, name):
        self.crew.pause(name)
        self.paused.append(name)

    def crash(self):
        """Kill the server, if there is one that all have joined by now; a process that finds none does not start."""
        if self.rig.name != "sqlite" and self.crew.view.members.keys() >= self.crew.processes.keys():
            asyncio.run(self.rig.kill())
            sleep(self.draw.choice([0.0, 0.5, 1.5]))
            asyncio.run(self.rig.start())


@pytest.mark.parametrize(
    "seed",
    [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, GROUPS + 2))],
    ids=lambda seed: f"{seed}",
)
@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_whatever_befalls_the_members_those_who_run_share_all(open_crew, rig, seed):  # noqa: F811
    draw = Random(seed)
    mode, throttle = draw.choice(["cooperative", "cooperative", "eager"]), draw.choice([None, 3])
    crew = open_crew(PARTITIONS, mode=mode, throttle=throttle)
    chaos = Chaos(crew, rig, draw)
    chaos.start()
    crew.until_settled()
    for _ in range(8):
        try:
            chaos.round()
        except AssertionError as error:
            raise AssertionError(f"{chaos.story}: {error}") from error
    assert [] == stale(crew.effects())
    assert {None} == {process.poll() for process in crew.processes.values()}
