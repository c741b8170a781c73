"""Mistakes: turns errors of the parser, and hints that are written for Python, into the words of the command line.

Promises: a message names the option or argument, the value, the expectation and the next step. It shows no value that
may hold a password.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from cyclopts import CycloptsError, Token
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from apportion.errors import InvalidInput, UnknownOption

if TYPE_CHECKING:
    from cyclopts import App

_HIDDEN = "(not shown: a URL, or a text with an '@')"
_EXPECTED = {
    int: "a whole number, such as 12",
    float: "a number, such as 1.5",
    bool: "true or false",
    timedelta: "a time with its unit, such as 10s, 2m or 1h",
    str: "one text, such as a,b",
}
_SAID = {
    " is None, expected": " is missing, expected",
    " is True, expected": " is given, expected",
    " is b'": " is '",
    ' is b"': ' is "',
    "expected None ": "expected no value ",
    ", or strip()": "",
    ", or None": "",
    "use Rendezvous or Ring": "use --placement rendezvous or ring",
    "use Ring, Rendezvous or Slots": "use --placement ring, rendezvous or slots",
    "Make one with secrets.token_bytes(16).": "Make one with: head -c 16 /dev/urandom > FILE",
    "keys=[...], real ones": "--keys FILE, with real keys",
    "; --keys FILE on the command line": "",
    "Pass key= to siphash-2-4, and to it alone.": "Pass --hasher-key-file FILE to siphash-2-4, and to it alone.",
    "Pass a count, or a list of ids.": "Write --partitions 1000, or --partitions FILE with an id per line.",
    "Ask group.owned, or wait for group.changes().": "Look at: apportion group show URL NAME",
    "Connect again with stores.connect(url).": "Run the command again.",
    "Give it a member_id that it keeps over restarts, and static=True.": "Pass --static, and a --member-id that stays.",
    "Write handle.id": "List them with: apportion tasks ls URL QUEUE",
    "Write datetime.now(UTC)": "Write for example --after 2026-03-08T00:00Z",
}
"""The words of Python, and those of the command line."""
_VALUE = r"timedelta\(seconds=(?P<seconds>\d+)\)|'(?P<text>[^']*)'|(?P<number>\d+)|True"
_ARGUMENT = re.compile(rf"\b(?P<verb>Write|Pass|pass|with) (?P<name>[a-z]+(?:_[a-z]+)*)=(?:{_VALUE})?")
"""An argument of a call, after the verb of a hint."""
_KIND = re.compile(r"\b(?:an int|a str|a timedelta)\b")
_KINDS = {"an int": "a whole number", "a str": "text", "a timedelta": "a time"}
_FIELD = re.compile(r"^([a-z]+(?:_[a-z]+)*) is ")
"""A field that may have the name of a parameter, at the beginning of a message."""
_LENGTH = re.compile(r" is '(?:(?P<days>-?\d+) days?, )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)'")
_STRING = re.compile(r"Pass a string; call str\(\.\.\.\) if .+ is meant\.")
_OPTIONS: dict[object, list[str]] = {}
"""The options of each function that was asked for: reading its signature takes milliseconds."""


def said(text: str, given: Sequence[str] = ()) -> str:
    """Return a problem or a hint in the words of the command line; `given` holds the options that were written."""
    for python, words in _SAID.items():
        text = text.replace(python, words)
    text = _KIND.sub(lambda found: _KINDS[found[0]], text)
    options = {each.partition("=")[0] for each in given}
    text = _FIELD.sub(
        lambda found: f"{_option_of(found[1])} is " if "_" in found[1] or _option_of(found[1]) in options else found[0],
        text,
    )
    text = _STRING.sub("Write it in quotes.", _LENGTH.sub(_seconds, text))
    return _ARGUMENT.sub(_option_with_value, text)


def _seconds(length: re.Match[str]) -> str:
    """Return a length of time as the command line takes it."""
    days, hours, minutes = (int(length[each] or 0) for each in ("days", "hours", "minutes"))
    return f" is '{(days * 24 + hours) * 3600 + minutes * 60 + float(length['seconds']):.12g}s'"


def _option_with_value(argument: re.Match[str]) -> str:
    seconds = argument["seconds"] and f"{argument['seconds']}s"
    value = seconds or argument["text"] or argument["number"] or ""
    return f"{argument['verb']} {_option_of(argument['name'])} {value}".rstrip()


def _option_of(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


def of_parser(error: CycloptsError, app: "App") -> InvalidInput:
    """Return an error of the parser as one of ours. It names the origin of an option from the environment or a file."""
    ours, token = _in_our_words(error, app), getattr(error, "token", None)
    if isinstance(token, Token) and token.source != "cli":
        ours.hint += f"\nOrigin: {token.keyword} from {'the environment' if token.source == 'env' else token.source}."
    return ours


def _in_our_words(error: CycloptsError, app: "App") -> InvalidInput:
    chain = tuple(error.command_chain or ())
    here = app
    for name in chain:
        here = here[name]
    command = " ".join(("apportion", *chain))
    see = f"See {command} --help."
    match error:
        case UnknownCommandError():
            return _unknown_command((error.unused_tokens or [""])[0], command, _commands(here))
        case UnknownOptionError():
            option = (error.token.keyword or error.token.value).partition("=")[0]
            return _unknown_option(option, command, _options(here), app)
        case UnusedCliTokensError():
            return _unused(error.unused_tokens or [""], command, here)
        case CoercionError():
            return _not_converted(error, see)
    return _of_one_option(error, command, see)


def _unknown_command(word: str, command: str, known: list[str]) -> InvalidInput:
    error = UnknownOption(f"command of {command}", _safe(word), known)
    if word.startswith("-"):
        error.hint = f"Write the command before its options. See {command} --help."
    return error


def _unknown_option(option: str, command: str, own: list[str], app: "App") -> InvalidInput:
    # The parser writes the option `nodes` of a file as [nodes].
    option = f"--{option[1:-1]}" if option.startswith("[") else option
    known = [name for name in own if option.startswith("--no-") or not name.startswith("--no-")]
    field, value, see = f"option of {command}", _safe(option), f"See {command} --help."
    error = UnknownOption(field, value, known) if known else InvalidInput(field, value, "no option", see)
    others = [name for name, other in _all_commands(app) if option in _options(other)]
    if others:
        error.hint = f"{option} is an option of {', '.join(others)}."
    elif getattr(error, "nearest", None) is None:
        error.hint = see
    return error


def _unused(tokens: list[str], command: str, here: "App") -> InvalidInput:
    named = ", ".join(each.name for each in here.assemble_argument_collection() if each.index is not None)
    hint = "Write ids of a list with commas and without blanks: a,b. " if "--nodes" in _options(here) else ""
    value = _HIDDEN if _HIDDEN in map(_safe, tokens) else tokens[0]
    expected = f"no argument after {named}" if named else "options alone"
    return InvalidInput(f"argument of {command}", value, expected, f"{hint}See {command} --help.")


def _of_one_option(error: CycloptsError, command: str, see: str) -> InvalidInput:
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        told = (error.argument.parameter.help or "").rstrip(".")
        hint = f"{told}. {see}" if told else see
        return InvalidInput(error.keyword or error.argument.name, None, f"a value for {command}", hint)
    if isinstance(error, RepeatArgumentError):
        is_list = error.token.keyword == "--nodes"
        hint = "Join the ids with commas: --nodes a,b." if is_list else "Leave one of them out."
        return InvalidInput(error.token.keyword or "option", _safe(error.token.value), "one value", hint)
    return InvalidInput("command line", _safe(str(error)), f"options and arguments of {command}", see)


def _not_converted(error: CoercionError, see: str) -> InvalidInput:
    token, argument = error.token, error.argument
    value = "" if token is None else token.value
    name = token.keyword if token is not None and token.keyword else argument.name if argument is not None else "value"
    kinds = {each for each in (_unwrapped(argument.hint) if argument else [error.target_type]) if each is not None}
    choices = [str(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices:
        return UnknownOption(name, _safe(value), choices)
    expected = next((words for kind, words in _EXPECTED.items() if kind in kinds), "another value")
    is_bare = timedelta in kinds and value.replace(".", "", 1).isdecimal()
    return InvalidInput(name, _safe(value), expected, f"Write {value}s for seconds." if is_bare else see)


def _unwrapped(hint: Any) -> list[Any]:  # noqa: ANN401 - an annotation may be anything
    """Return the kinds that an annotation allows: those of a union, or the one."""
    return [hint] if isinstance(hint, type) or get_origin(hint) is Literal else list(get_args(hint))


def _commands(app: "App") -> list[str]:
    return [name for name in app if not name.startswith("-")]


def _all_commands(app: "App") -> Iterator[tuple[str, "App"]]:
    """Yield each command that has no commands below it, and its name."""
    for name in _commands(app):
        below = list(_all_commands(app[name]))
        yield from ((f"{name} {each}", command) for each, command in below) if below else [(name, app[name])]


def _options(app: "App") -> list[str]:
    command = app.default_command
    if command not in _OPTIONS:
        arguments = app.assemble_argument_collection() if command else ()
        _OPTIONS[command] = sorted({each for argument in arguments for each in argument.names if each.startswith("--")})
    return _OPTIONS[command]


def _safe(value: str) -> str:
    """Return the value, unless part of it may be a password.

    A password may hold blanks, so its beginning is unknown.
    """
    return _HIDDEN if "@" in value or "://" in value else value
