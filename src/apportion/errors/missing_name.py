"""Missing name: the error for a name that a module does not have, with the line to write.

Promises: the message is built only when it is read. Python raises this error, and ignores it, at each first import of a
submodule. The class `SomeName` is looked up in the file `some_name` of the room. No other file is imported.
"""

from collections.abc import Iterable
from importlib import import_module

from apportion.errors import nearest


class MissingName(AttributeError):
    """A name that a module does not have; `room` is the package with a file per class.

    >>> print(MissingName("apportion", "Maglev", [], room="apportion.placement"))
    module 'apportion' has no attribute 'Maglev'.
    Write: from apportion.placement.maglev import Maglev
    >>> print(MissingName("apportion", "HashRing", ["hashers", "Ring"], room="apportion.placement"))
    module 'apportion' has no attribute 'HashRing'.
    Did you mean 'Ring'?
    """

    def __init__(self, module: str, name: str, known: Iterable[str], *, room: str) -> None:
        super().__init__(f"module {module!r} has no attribute {name!r}")
        self._asked, self._known, self._room = name, tuple(known), room

    def __str__(self) -> str:
        problem = str(self.args[0])
        if (home := _home_of(self._asked, self._room)) is not None:
            return f"{problem}.\nWrite: from {home} import {self._asked}"
        spelled = {each.lower(): each for each in self._known}
        near = nearest(self._asked, spelled)
        return problem if near is None else f"{problem}.\nDid you mean {spelled[near]!r}?"

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


def _home_of(name: str, room: str) -> str | None:
    from pkgutil import walk_packages  # noqa: PLC0415 - needed only when the message is read

    for found in walk_packages(import_module(room).__path__, f"{room}."):
        file = found.name.rpartition(".")[2].replace("_", "")
        if file == name.lower() and hasattr(import_module(found.name), name):
            return found.name
    return None
