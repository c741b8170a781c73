"""Store URL: gives commands a store's URL from a file or a variable, because everybody can read command lines.

Promises: `--url-file FILE` or the variable APPORTION_STORE can give the URL to the doctor, to `table repair`, and
to each command of `_ROOMS` that takes a store URL. A URL among the arguments comes before the variable, and so does the
file. A URL and the file together are refused. No message holds a part of the URL.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from apportion.errors import InvalidInput

VARIABLE = "APPORTION_STORE"
_FILE = "--url-file"
_STORE = "--store"
_ROOMS = ("group", "store", "guard", "tasks", "cron", "shards")
_REPAIR = ["table", "repair"]
_WITHOUT_STORE = [["tasks", "worker"], ["cron", "plan"], ["cron", "apply"], ["shards", "labels"]]
_WITH_KEYS = [["shards", "route"], ["shards", "pin"], ["shards", "isolate"]]
_SWITCHES = {
    "--accept-loss", "--all", "--allow-unbounded-wal", "--check", "--drop", "--dry-run", "--explain",
    "--force", "--json", "--off", "--replace", "--reversible", "--sql", "--static", "--stride", "--wait",
    "--watch", "--whole", "--no-all", "--no-json", "--no-replace", "--no-sql", "--no-static", "--no-wait",
}  # fmt: skip
"""The options of these rooms that have no value after them."""
_JSON = ("{", "[", '"')
_MOST_CHARACTERS = 4096


def with_url(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the arguments of a command with the URL of its store among them, from any of the three sources."""
    given, after = _divided(arguments)
    kept, path = _without_file(given)
    said = environ.get(VARIABLE, "")
    if kept[:1] == ["doctor"]:
        return [*_of_doctor(kept, path, said), *after]
    is_command = len(kept) >= 2 and (kept[0] in _ROOMS or kept[:2] == _REPAIR) and not kept[1].startswith("-")
    is_for_store = is_command and kept[:2] not in _WITHOUT_STORE and not _has_rule(kept)
    listed = list(_listed(kept))
    is_written = any(map(_is_url, listed[:1] if kept[:2] in _WITH_KEYS else listed))
    if path is not None and (is_written or not is_for_store):
        expected = "one URL, for a command that takes one"
        raise InvalidInput(_FILE, path, expected, "Leave out the option, or the URL argument.")
    if not is_for_store or is_written or kept[2:3] == ["--help"]:
        return [*kept, *after]
    url = said if path is None else _read(path)
    return [*kept[:2], *([url] if url else []), *kept[2:], *after]


def _listed(kept: list[str]) -> Iterator[str]:
    """Yield the arguments of a command that are neither options nor values of options: such a value may be a URL."""
    for before, each in pairwise(kept[1:]):
        has_value = before.startswith("-") and "=" not in before and before not in _SWITCHES
        if not (each.startswith("-") or has_value):
            yield each


def _is_url(word: str) -> bool:
    """Whether a word is a URL: neither JSON nor the id of a shard with its URL."""
    scheme, mark, _ = word.partition("://")
    return bool(mark) and "=" not in scheme and not word.startswith(_JSON)


def _has_rule(kept: list[str]) -> bool:
    """Whether `cron next` has a rule, in place of a queue and a schedule. The name of a queue has no blank and no @."""
    return kept[:2] == ["cron", "next"] and any(" " in each or each[:1] == "@" for each in [*_listed(kept)][:1])


def _of_doctor(kept: list[str], path: str | None, said: str) -> list[str]:
    """Return the arguments of the doctor: `--store` without a URL means the URL of the file or of the variable."""
    if path is not None:
        return [*kept, f"{_STORE}={_read(path)}"]
    place = kept.index(_STORE) if _STORE in kept else None
    if place is not None and said and "://" not in "".join(kept[place + 1 : place + 2]):
        return [*kept[: place + 1], said, *kept[place + 1 :]]
    return kept


def _divided(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Divide the arguments at the word `--`: those after it belong to another command."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:place]), list(arguments[place:])


def _without_file(given: list[str]) -> tuple[list[str], str | None]:
    """Return the arguments without `--url-file` and its value, and this value."""
    for place, each in enumerate(given):
        name, mark, value = each.partition("=")
        if name == _FILE and mark:
            return [*given[:place], *given[place + 1 :]], value
        if name == _FILE:
            if place + 1 == len(given):
                raise InvalidInput(_FILE, "", "a file", "Write the name of the file after the option.")
            return [*given[:place], *given[place + 2 :]], given[place + 1]
    return given, None


def _read(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as stream:
            url = stream.read(_MOST_CHARACTERS + 2).rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no UTF-8"
        raise InvalidInput(_FILE, path, f"a file that can be read ({why})", "Check its name and its mode.") from None
    if not url or "\n" in url or len(url) > _MOST_CHARACTERS:
        raise InvalidInput(_FILE, path, "a file with one line, the URL", "Write the URL alone into it.")
    return url
