"""Arguments of an operator: queues, states and ids. Wrong ones are refused before any call to the store."""

import re
from typing import get_args

from apportion.errors import InvalidInput, UnknownOption
from apportion.stores.task_values import TaskState

STATES: tuple[TaskState, ...] = tuple(each for each in get_args(TaskState) if each not in ("missing", "damaged"))


def checked_queue(queue: str) -> str:
    """Return the name of a queue; `InvalidInput` for a name that no queue can have."""
    if not isinstance(queue, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", queue):
        expected = "the name of a queue: letters, digits, '.', '_' and '-'"
        raise InvalidInput("queue", queue, expected, "Write the name that the program gives to the queue.")
    return queue


def check_states(states: tuple[TaskState, ...], known: tuple[TaskState, ...] = STATES, hint: str = "") -> None:
    """Refuse an empty tuple, unknown states, and states outside of `known`. `hint` gives the reason for `known`."""
    if not isinstance(states, tuple | list) or not states:
        raise InvalidInput("states", states, "a tuple of states", f"Write states=({known[0]!r},)")
    for each in states:
        if each not in STATES:
            raise UnknownOption("states", each, STATES)
    if not set(states) <= set(known):
        raise InvalidInput("states", ", ".join(states), f"some of {', '.join(known)}", hint)


def check_ids(ids: tuple[str, ...]) -> None:
    """Refuse ids that no task can have."""
    for each in ids:
        if not isinstance(each, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", each):
            raise InvalidInput("id of a task", each, "the id of a task, as text", "Write handle.id")
