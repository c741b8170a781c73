"""Key rules as plain data: which lanes a worker may claim from, and which tasks are the first of their keys.

The task ledger applies them, and the statements on real engines are compared with it.
"""

from collections.abc import Iterable, MutableMapping
from dataclasses import replace

from apportion.stores.lanes.tokens import LaneRecord, parted
from apportion.stores.lanes.values import KEYED_LANES, OwnedLane
from apportion.stores.task_records import OpenTask
from apportion.stores.task_values import Worker

KEYED_RANK = 2  # keyed tasks rank with the tasks of the default priority


def rank(lane: int) -> int:
    """Return the priority of a lane; all keyed lanes have one rank.

    >>> [rank(lane) for lane in (0, 2, 16, 79)]
    [0, 2, 2, 2]
    """
    return lane if lane < KEYED_LANES else KEYED_RANK


def shown(lanes: MutableMapping[tuple[str, int], LaneRecord], worker: Worker) -> tuple[Worker, tuple[OwnedLane, ...]]:
    """Note the tokens that a worker shows; return the worker with its accepted lanes, and its fenced lanes."""
    known = {place: record.token for place, record in lanes.items()}
    accepted, fenced = parted((each, known.get((each.queue, each.lane))) for each in worker.lanes)
    for each in accepted:
        lanes[each.queue, each.lane] = LaneRecord(token=each.token, session=worker.session)
    return replace(worker, lanes=tuple(accepted)), tuple(fenced)


def is_within(task: OpenTask, worker: Worker) -> bool:
    """Whether a task has no key, or lies in a lane of a worker."""
    return task.new.key is None or any((task.queue, task.new.lane) == (each.queue, each.lane) for each in worker.lanes)


def are_first(tasks: Iterable[OpenTask]) -> set[str]:
    """Return the tasks that wait for no other task.

    These are all tasks without a key, and the oldest task of each key that has no claimed task.
    `tasks` are all open tasks, oldest first.
    """
    first: dict[tuple[str, str], str] = {}
    claimed, others = set[tuple[str, str]](), set[str]()
    for task in tasks:
        if task.new.key is None:
            others.add(task.id)
            continue
        first.setdefault((task.queue, task.new.key), task.id)
        if task.session is not None:
            claimed.add((task.queue, task.new.key))
    return others | {task for key, task in first.items() if key not in claimed}
