"""Program: the queues of a program by their places, such as `app:queue`: a module, and a name in it.

Promises: a module is looked for in the current folder first, as `python -m` does. A place without a queue is an error
that names the queues of the module. An error of the program itself names its file and line; its traceback is the cause
of the error.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from sysconfig import get_paths
from traceback import extract_tb
from types import ModuleType

import apportion
from apportion.errors import ApportionError, InvalidInput, UnknownOption
from apportion.errors.shown import without_password
from apportion.work.facade import Queue
from apportion.work.queue import TaskQueue

_MOST_CHARACTERS = 500
_LIBRARIES = (
    *{get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(apportion.__file__).parent),
)


def queues_at(places: Sequence[str], *, field: str = "QUEUES") -> tuple[Queue, ...]:
    """Import the program, and return its queues, each once. `field` is their argument, for errors."""
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


def imported(name: str, field: str) -> ModuleType:
    """Import a module of the program, from the current folder first; `InvalidInput` with the line that failed."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    with _Import(name, field):
        return import_module(name)


class _Import:
    """Turns whatever a program raises at its import into an error of the command."""

    def __init__(self, name: str, field: str) -> None:
        self._name, self._field = name, field

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> None:
        if isinstance(error, ApportionError):
            error.within(_line(error))
        elif isinstance(error, Exception | SystemExit):
            raise InvalidInput(self._field, self._name, "a module that can be imported", self._hint(error)) from error

    def _hint(self, error: BaseException) -> str:
        if isinstance(error, ModuleNotFoundError) and f"{self._name}.".startswith(f"{error.name}."):
            return "Run the command in the folder of the program, or set PYTHONPATH."
        told = f"{type(error).__name__}: {without_password(_said(error))}".removesuffix(": ")
        return f"{_line(error)}: {told}\nFor the whole traceback, run python -c 'import {self._name}'"


def _said(error: BaseException) -> str:
    """Return the message of an error of the program, in a line; nothing if it cannot say one."""
    with suppress(Exception):
        return " ".join(str(error).split())[:_MOST_CHARACTERS]
    return ""


def _line(error: BaseException) -> str:
    """Return the file and line of the program at which its import has ended; not those of a library below it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    found = extract_tb(error.__traceback__)[1:]
    frames = [each for each in found if not each.filename.startswith("<")]  # those of a file
    ours = [each for each in frames if not each.filename.startswith(_LIBRARIES)] or frames
    return f"{_short(ours[-1].filename)}:{ours[-1].lineno}" if ours else "import"


def _short(file: str) -> str:
    """Return the name of a file as it is from the current folder."""
    with suppress(OSError):  # the folder may be gone
        return os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file
    return file


def _no_queue(place: str, module: str, field: str) -> InvalidInput:
    known = [f"{module}:{name}" for name, value in vars(sys.modules[module]).items() if isinstance(value, TaskQueue)]
    if not known:
        return InvalidInput(
            field, place, f"a queue; {module} has none", "Make the queue there, or name another module."
        )
    return UnknownOption(field, place, known)
