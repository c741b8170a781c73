"""Program: a module of the user's program, imported by its name.

Promises: a module is looked for in the current folder first, as `python -m` does. An error of the program itself names
its file and line; the original error is the cause of ours.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from sysconfig import get_paths
from traceback import extract_tb
from types import ModuleType

import apportion
from apportion.errors import ApportionError, InvalidInput
from apportion.errors.shown import without_password

_MOST_CHARACTERS = 500
_LIBRARIES = (
    *{get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(apportion.__file__).parent),
)


def imported(name: str, field: str) -> ModuleType:
    """Import a module of the program, from the current folder first; `InvalidInput` with the line that failed."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    if name.endswith(".py"):
        hint = "Write the name of the module, without .py and with dots for folders."
        raise InvalidInput(field, name, "a module that can be imported", hint)
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
    """Return the message of an error of the program on one line, or nothing if the error has no readable message."""
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
    """Return the path of a file; a relative one if the file is in the current folder."""
    with suppress(OSError):  # the folder may be gone
        return os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file
    return file
