"""Remains: the parts of `apportion` that still run in a process of a world. A test can claim that there are none.

Everything that was opened must be closed again, also when its caller was cancelled at the worst moment. The remains
of a process are its tasks, its handles of the store, its leases, the shared parts of its groups, and its SIGTERM
callbacks.
"""

import asyncio
from collections.abc import Iterator

from apportion.sim.world.loop import SeededTask
from apportion.sim.world.process import CURRENT
from apportion.sim.world.world import World
from apportion.work.opened import OpenedQueue


def remains(world: World, name: str) -> list[str]:
    """Return the remains of a process, one line each, sorted. Call this between two runs, while no task runs."""
    return sorted(_remains(world, name))


def _remains(world: World, name: str) -> Iterator[str]:
    process = world.processes.known(name)
    for task in asyncio.all_tasks(world.loop):
        if isinstance(task, SeededTask) and task.made_in.get(CURRENT) is process:
            yield f"task {getattr(task.get_coro(), '__qualname__', task)}"
    for site in world.sites:
        for each in site.troubles:
            yield from [f"an open handle of the {each.place}"] * each.open_handles[name]
        leases = site.checker.history.leases
        for lease in site.holders.held_by(name):
            if lease in leases and world.now < leases[lease].renewed_at + leases[lease].ttl_seconds:
                yield f"lease {lease}"
    shared = [each for each in process.machine.shared.values() if not isinstance(each, OpenedQueue)]
    yield from ["a session for groups to share"] * len(shared)
    yield from ["a SIGTERM callback of a group"] * len(process.machine.leaving)
