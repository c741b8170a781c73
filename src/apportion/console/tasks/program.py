"""Program: the queues of a program by their places, such as `app:queue`: a module, and a name in it.

Promises: a module is looked for in the current folder first, as `python -m` does. A place without a queue is an error
that names the queues of the module. An error within the program is shown with its traceback.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from apportion.errors import InvalidInput, UnknownOption
from apportion.work.facade import Queue
from apportion.work.queue import TaskQueue


def queues_at(places: Sequence[str], *, field: str = "QUEUES") -> tuple[Queue, ...]:
    """Import the program, and return its queues, each once. `field` is their argument, for errors."""
    if not places:
        raise InvalidInput(field, None, "the place of a queue", "Write for example app:queue")
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = tuple(_queue_at(each, field) for each in places)
    for place, queue in zip(places, found, strict=True):
        if found.count(queue) > 1:
            raise InvalidInput(field, place, "each queue once", "Leave one of them out; see --concurrency.")
    return tuple(map(Queue.of, found))


def _queue_at(place: str, field: str) -> TaskQueue:
    name, mark, path = place.partition(":")
    if not (mark and all(each.isidentifier() for each in (*name.split("."), *path.split(".")))):
        raise InvalidInput(field, place, "a module and a name in it, such as app:queue", "Write MODULE:NAME")
    found: object = _imported(name, field)
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


def _imported(name: str, field: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        hint = "Run the command in the folder of the program, or set PYTHONPATH."
        raise InvalidInput(field, name, "a module that can be imported", hint) from error


def _no_queue(place: str, module: str, field: str) -> InvalidInput:
    known = [f"{module}:{name}" for name, value in vars(sys.modules[module]).items() if isinstance(value, TaskQueue)]
    if not known:
        return InvalidInput(
            field, place, f"a queue; {module} has none", "Make the queue there, or name another module."
        )
    return UnknownOption(field, place, known)
