"""Configured: options of commands from the environment and from two files of the current folder.

The command line comes first, then the variable `APPORTION_<COMMAND>_<OPTION>`, then `apportion.toml`, then
`[tool.apportion]` in `pyproject.toml`.
Promises: a misspelt command in a file is an error, like a misspelt option. `taken` names the origin of each option.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.console.files.io import unusable
from apportion.console.files.topology_file import read_toml
from apportion.errors import InvalidInput, UnknownOption

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import ArgumentCollection

    Source = Callable[[App, tuple[str, ...], ArgumentCollection], None]


@dataclass(frozen=True)
class _File:
    """A file with the options of commands, at its top or below the keys `below`. It is read when a command runs."""

    path: Path
    commands: Mapping[str, Iterable[str]]
    below: tuple[str, ...] = ()

    def __call__(self, app: "App", words: tuple[str, ...], arguments: "ArgumentCollection") -> None:
        from cyclopts.config import Dict  # noqa: PLC0415 - an extra

        document: object = _read(self.path, ".".join(self.below).encode())
        for name in self.below:
            document = document.get(name, {}) if isinstance(document, dict) else {}
        tables = document if isinstance(document, dict) else {}
        _check(self.path, tables, self.commands)
        Dict(tables, source=str(self.path))(app, words, arguments)


def sources(commands: Mapping[str, Iterable[str]], taken: list[str]) -> "tuple[Source, ...]":
    """Return the sources of options after the command line, the nearest first. A run fills `taken`."""
    from cyclopts.config import Env  # noqa: PLC0415 - an extra

    own = _File(Path("apportion.toml"), commands)
    shared = _File(Path("pyproject.toml"), commands, below=("tool", "apportion"))
    return Env("APPORTION_", show=False), own, shared, partial(_note, taken)


def _note(taken: list[str], _app: "App", _words: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Add each option that is not from the command line to `taken`, with its origin."""
    for argument in arguments:
        origins = {each.keyword if each.source == "env" else each.source for each in argument.tokens}
        taken.extend(f"{argument.name} from {origin}" for origin in origins if origin not in (None, "cli"))


def _read(path: Path, mark: bytes) -> dict[str, object]:
    """Return the content of a file; nothing if the file is absent, or has no `mark` and so is for other tools."""
    try:
        if not path.is_file() or mark not in path.read_bytes():
            return {}
    except OSError as error:
        raise unusable("configuration", path, error) from error
    return read_toml(path, what="configuration", hint="See Configuration on the page of commands.")


def _check(path: Path, document: dict[str, object], commands: Mapping[str, Iterable[str]]) -> None:
    """Raise `UnknownOption` for a table of a command that does not exist."""
    for name, table in document.items():
        if name not in commands:
            raise UnknownOption(f"command in {path}", name, commands)
        if not isinstance(table, dict):
            raise InvalidInput(f"{name} in {path}", table, "a table of options", f"Write [{name}] above its options.")
        known = set(commands[name])
        for each in sorted(set(table) - known) if known else ():
            raise UnknownOption(f"command in [{name}] of {path}", each, known)
