"""Damaged tasks in a world: a damaged row costs its task alone, and excuses the loss of no other one."""

from datetime import timedelta
from random import Random

import pytest

from apportion.sim.world.vandal import TASK_DAMAGE, damage_task
from apportion.stores.damage.sqlite import names
from tests.sim.scenarios.sqlite_backing import SqliteBacking
from tests.sim.test_task_world import RUNS, enqueues, opened, plain, started, until

STORES = {"memory": {}, "sqlite": {"store": SqliteBacking}}
DELAYED = timedelta(seconds=3)


def delayed():
    return plain.call(0).options(delay=DELAYED)


@pytest.mark.parametrize(
    "damage", [*TASK_DAMAGE[:4], *(pytest.param(each, marks=pytest.mark.slow) for each in TASK_DAMAGE[4:])], ids=str
)
def test_each_damage_of_a_row_costs_its_task_alone(damage):
    """The damaged task is one of three that wait; two are served on time."""
    RUNS.clear()
    with started(1, store=SqliteBacking) as world:
        world.spawn("e", enqueues(*(plain.call(number).options(delay=DELAYED) for number in range(3))))
        until(world, lambda: len(opened(world)) == 3)
        [first, *_] = opened(world)
        damage_task(world, Chosen(first.id, damage))
        until(world, lambda: not opened(world), most=DELAYED.total_seconds() + 1.0)
        assert {"1", "2"} <= {f"{number}" for _, number in RUNS}


def test_each_damage_is_damage_for_an_operator_too():
    damages = [each for each in TASK_DAMAGE if each]
    with started(1, store=SqliteBacking) as world:
        world.spawn("e", enqueues(*(delayed() for _ in damages)))
        until(world, lambda: len(opened(world)) == len(damages))
        tasks = opened(world)
        for task, damage in zip(tasks, damages, strict=True):
            world.backing.damage(task.id, damage)
        found = "".join(names(world.backing._observer))
        assert [] == [each for task, each in zip(tasks, damages, strict=True) if not is_named(task, found)]


@pytest.mark.parametrize("store", STORES.values(), ids=STORES)
def test_the_loss_of_a_row_is_excused_by_its_damage_alone(store):
    with started(1, collect=True, **store) as world:
        world.spawn("e", enqueues(delayed(), delayed()))
        until(world, lambda: len(opened(world)) == 2)
        [first, second] = opened(world)
        damage_task(world, Chosen(first.id, {}))
        assert ([second.id], []) == ([each.id for each in opened(world)], world.checker.violations)
        tasks = world.backing._view.damaged
        world.backing.damage(second.id, {})
        tasks.discard(second.id)
        world.run(until=world.now + 0.1)
        assert ["AcknowledgedTasksStay"] == [each.invariant for each in world.checker.violations]


def is_named(task, found):
    """Whether a damaged task is named by its id, or by its position if one of its texts cannot be read."""
    return task.id in found or f"task {task.position}" in found


class Chosen(Random):
    """Draws this task and this damage of it."""

    def __init__(self, task, damage):
        super().__init__(0)
        self._task, self._damage = task, damage

    def choice(self, seq):
        """Return the task from tasks, or else the damage."""
        return self._task if self._task in seq else self._damage
