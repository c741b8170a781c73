"""Configured: options of commands from the environment and from two files of the current folder.

The command line comes first, then the variable `APPORTION_<COMMAND>_<OPTION>`, then `apportion.toml`, then
`[tool.apportion]` in `pyproject.toml`.
Promises: a misspelt command in a file is an error, like a misspelt option. `taken` names the origin of each option.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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


@dataclass
class Taken:
    """The options of a run that are not from the command line, each with its origin, and whether `--json` is on."""

    options: list[str] = field(default_factory=list)
    is_json: bool = False

    def note(self, _app: "App", _words: tuple[str, ...], arguments: "ArgumentCollection") -> None:
        """Note the options of a run."""
        for argument in arguments:
            origins = {each.keyword if each.source == "env" else each.source for each in argument.tokens}
            self.options.extend(f"{argument.name} from {each}" for each in origins if each not in (None, "cli"))
            for each in argument.tokens:
                if "\0" in each.value:  # a file of options may hold a NUL, but a path may not
                    hint = "Leave out the character that is shown escaped."
                    raise InvalidInput(argument.name, each.value, "text without NUL", hint)
            if argument.name == "--json" and argument.tokens:
                last = argument.tokens[-1]
                self.is_json = last.implicit_value is True or last.value.lower() in ("1", "true", "t", "yes", "y")


def sources(commands: Mapping[str, Iterable[str]], aliases: Mapping[str, str], taken: Taken) -> "tuple[Source, ...]":
    """Return the sources of options after the command line, the nearest first. A run fills `taken`.

    A command with an alias has the options of its name.
    """
    own = _File(Path("apportion.toml"), commands)
    shared = _File(Path("pyproject.toml"), commands, below=("tool", "apportion"))

    def _named(source: "Source") -> "Source":
        def _read_source(app: "App", words: tuple[str, ...], arguments: "ArgumentCollection") -> None:
            known = {each for word in words[:1] for each in commands.get(word, ())}
            named = (each if each in known else aliases.get(each, each) for each in words[1:])
            source(app, (*words[:1], *named), arguments)

        return _read_source

    return _named(_read_environment), _named(own), _named(shared), taken.note


def _read_environment(app: "App", words: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    from cyclopts.config import Env  # noqa: PLC0415 - an extra

    # A shell has no variables with hyphens.
    Env("APPORTION_", show=False)(app, tuple(each.replace("-", "_") for each in words), arguments)


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
        for each in sorted(table) if known else ():
            if each not in known:
                raise UnknownOption(f"command in [{name}] of {path}", each, known)
            if not isinstance(table[each], dict):
                field, hint = f"{each} in [{name}] of {path}", f"Write [{name}.{each}] above its options."
                raise InvalidInput(field, table[each], "a table of options", hint)
