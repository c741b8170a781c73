"""Queues of a program by their places, such as `app:queue`: a module, and a name in it.

Promises: a place without a queue is an error that names the queues of the module.
"""

import sys
from collections.abc import Sequence

from apportion.console.options.program import imported
from apportion.errors import InvalidInput, UnknownOption
from apportion.work.facade import Queue
from apportion.work.queue import TaskQueue


def queues_at(places: Sequence[str], *, field: str = "QUEUES") -> tuple[Queue, ...]:
    """Import the program, and return its queues, each once. Errors name the argument `field`."""
    if not places:
        raise InvalidInput(field, None, "the place of a queue", "Write for example app:queue")
    found = tuple(_queue_at(each, field) for each in places)
    for place, queue in zip(places, found, strict=True):
        if found.count(queue) > 1:
            raise InvalidInput(field, place, "each queue once", "Leave one of them out; see --concurrency.")
    return tuple(map(Queue.of, found))


def _queue_at(place: str, field: str) -> TaskQueue:
    name, mark, path = place.partition(":")
    if not (mark and all(each.isidentifier() for each in (*name.split("."), *path.split(".")))):
        raise InvalidInput(field, place, "a module and a name in it, such as app:queue", "Write MODULE:NAME")
    found: object = imported(name, field)
    for each in path.split("."):
        if not hasattr(found, each):
            raise _no_queue(place, name, field)
        found = getattr(found, each)
    if not isinstance(found, TaskQueue):
        raise _no_queue(place, name, field)
    if not found.task_names:
        hint = f"Import the modules of its task functions in {name}."
        raise InvalidInput(field, place, "a queue with task functions", hint)
    return found


def _no_queue(place: str, module: str, field: str) -> InvalidInput:
    known = [f"{module}:{name}" for name, value in vars(sys.modules[module]).items() if isinstance(value, TaskQueue)]
    if not known:
        return InvalidInput(
            field, place, f"a queue; {module} has none", "Make the queue there, or name another module."
        )
    return UnknownOption(field, place, known)
