"""The keys' scenario: workers of a queue with partitions share its keys as members of a group, while all may fail.

The seed draws two to four workers, the partitions, the keys, the acts of an operator, and the faults. In most seeds the
group has a store of its own. The store of the tasks and that of the group are then cut off together, or each alone, and
each may go back to an old copy alone.
"""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta

from apportion.sim.invariants import keys
from apportion.sim.world.world import World
from apportion.stores.task_values import OnDead
from apportion.work import admin
from apportion.work.call import Call
from apportion.work.facade import Queue
from apportion.work.lanes.lane_member import LaneMember
from apportion.work.worker import QueueWorker
from tests.sim.scenarios import task_functions as functions
from tests.sim.scenarios import task_play
from tests.sim.scenarios.task_functions import FUNCTIONS, NAME, URL
from tests.sim.scenarios.task_play import _OUTAGES, TTL_SECONDS, TaskPlay

HELD = (*task_play.HELD, *keys.INVARIANTS)
USUAL = (functions.quick, functions.quick, functions.plain, functions.flaky, functions.snoozes, functions.steady)
BAD = (functions.hopeless, functions.hopeless, functions.hangs)
UNKEYED = (functions.quick, functions.slow, functions.flaky, functions.gives_up)
GROUP_URL = "etcd://group:2379"
_SETTLE_SECONDS = 0.2
_SHARED = 11  # one seed of so many has a single store


def group_url(seed: int) -> str | None:
    """Return the URL of the store of the group; None where it is the store of the tasks."""
    return None if seed % _SHARED == 0 else GROUP_URL


class KeyPlay(TaskPlay):
    """One seed of the scenario."""

    damage_ratio = 0.0

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.liveness_seconds = 90.0  # after many deaths, a lane waits long for its next owner
        draw = world.draws("keys")
        self._concurrency = {f"w{number}": draw.choice([1, 3, 5]) for number in range(1, draw.randint(2, 4) + 1)}
        self._partitions = draw.choice([1, 4, 8])
        self._keys = [f"k{number}" for number in range(draw.choice([1, 3, 8]))]
        self._poisons = draw.choice([0, 0, 1, 2])
        self._drain_seconds = draw.choice([0.1, 0.5])
        self._blocked_ratio = draw.choice([0.0, 0.3, 1.0])

    def unsettled(self, calm: float) -> list[str]:
        """Return the tasks that are open; `KeyGoesOn` checks how long they wait."""
        tasks = self.world.checker.history.tasks
        if tasks is None or not self._is_lifted:
            return ["the limits are not lifted"]
        if self._enqueuing:
            return [f"{sorted(self._enqueuing)} cannot enqueue"]
        return [f"{task.id} is {task.state}" for task in tasks.open.values()]

    def _worker(self, process: str) -> QueueWorker:
        member = LaneMember(
            drain_timeout=timedelta(seconds=self._drain_seconds), settle=timedelta(seconds=_SETTLE_SECONDS)
        )
        return self._queue().worker(concurrency=self._concurrency[process], member=member)

    def _queue(self) -> Queue:
        ttl = timedelta(seconds=TTL_SECONDS)
        queue = Queue(URL, NAME, lease_ttl=ttl, partitions=self._partitions, group_url=self.world.group_url)
        queue._functions.update(FUNCTIONS)
        return queue

    def _call(self) -> Call:
        self._number += 1
        if random.random() < 0.2:
            return random.choice(UNKEYED).call(self._number)
        function = random.choice(BAD if random.random() < self._bad_ratio else USUAL)
        if self._poisons and function in BAD:
            self._poisons, function = self._poisons - 1, functions.poison
        call = function.call(self._number)
        on_dead: OnDead = "block" if random.random() < self._blocked_ratio else "skip"
        call = call.options(key=random.choice(self._keys), on_dead=on_dead)
        draw = random.random()
        if draw < 0.1:
            return call.options(expires=timedelta(seconds=random.uniform(0.1, 2)))
        if draw < 0.2:
            return call.options(unique=f"u{random.randrange(3)}", on_duplicate=random.choice(["keep", "replace"]))
        return call

    async def _rule(self) -> None:
        """Give commands; once nothing fails any more, cancel the dead tasks that block their keys."""
        await super()._rule()
        while True:
            tasks = self.world.checker.history.tasks
            opened = [] if tasks is None else [task for task in tasks.open.values() if task.is_blocking]
            blocking = [task.id for task in opened if task.new.on_dead == "block"]
            with suppress(*_OUTAGES):
                if blocking:
                    await admin.cancel(URL, *blocking)
            await asyncio.sleep(0.2)
