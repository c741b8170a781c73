"""Options of the commands of shards: the shards of a set, and the models of a program."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter
from sqlalchemy.orm import DeclarativeBase

from apportion.console.options.edits import ids_in, pairs_in, weight_in
from apportion.console.options.program import imported
from apportion.errors import InvalidInput, UnknownOption
from apportion.shards.models import Sharded, rule_of
from apportion.shards.slots import ShardKey

SetName = Annotated[str, Parameter(name="SET", help="Name of the set.")]
ReplicationUrls = Annotated[
    list[str] | None,
    Parameter(
        name="--replication-url",
        help="Id and URL at which servers of other shards reach a shard: ID=URL; may be repeated.",
        negative="",
    ),
]
Models = Annotated[str, Parameter(help="Module and name of the declarative base, such as shop.models:Base.")]

_UNITS = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([kmgt]?b)", re.IGNORECASE | re.ASCII)

_EXAMPLE = "Write for example --models shop.models:Base"


def shards_of(words: Sequence[str]) -> dict[str, str]:
    """Return the URL of each shard by its id."""
    return _urls_of("--shard", words, "sqlite:///one.db")


def replication_urls_of(words: Sequence[str] | None, shards: Mapping[str, str]) -> dict[str, str]:
    """Return the replication URL of each shard by its id. The URL of an only shard needs no id."""
    option, given = "--replication-url", list(words or ())
    if len(given) == len(shards) == 1 and "=" not in given[0].partition("://")[0]:
        given = [f"{shard}={given[0]}" for shard in shards]
    found = _urls_of(option, given, "postgresql://user:${PASSWORD}@host/database")
    for shard in found:
        if shard not in shards:
            raise UnknownOption(option, shard, shards)
    return found


def _urls_of(option: str, words: Sequence[str], example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        shard, mark, url = word.partition("=")
        if not mark or not shard or "://" not in url:
            said = "(not shown)" if "@" in word else word
            raise InvalidInput(option, said, "ID=URL", f"Write for example {option} one={example}")
        if shard in found:
            raise InvalidInput(option, shard, "each id once", "Leave one of them out.")
        found[shard] = url
    return found


def weights_of(weight: list[str] | None, drain: list[str] | None) -> dict[str, float]:
    """Return the weights of shards; a drained one has 0."""
    weights = {shard: weight_in(text) for shard, text in pairs_in("--weight", weight)}
    for shard in ids_in(drain):
        if shard in weights:
            raise InvalidInput(
                "--drain", shard, "no --weight of the same shard with it", "A drained shard has weight 0."
            )
        weights[shard] = 0.0
    return weights


def rate_of(word: str) -> float:
    """Return a number of bytes per second.

    >>> rate_of("5MB/s"), rate_of("1.5 kB/s"), rate_of("800B/s")
    (5000000.0, 1500.0, 800.0)
    """
    size, mark, second = word.rpartition("/")
    rate = _size_in(size) if mark and second.lower() == "s" else 0.0
    if not rate:
        raise InvalidInput(
            "--rate", word, "a number above 0 with B/s, kB/s, MB/s, GB/s or TB/s", "Write for example --rate 5MB/s"
        )
    return rate


def size_of(option: str, word: str) -> float:
    """Return a number of bytes.

    >>> size_of("--max-wal", "10GB"), size_of("--max-wal", "1.5 kB")
    (10000000000.0, 1500.0)
    """
    size = _size_in(word)
    if not size:
        raise InvalidInput(
            option, word, "a number above 0 with B, kB, MB, GB or TB", f"Write for example {option} 10GB"
        )
    return size


def _size_in(word: str) -> float:
    """Return the number of bytes that a word means, 0 for another word."""
    found = _SIZE.fullmatch(word)
    return 0.0 if found is None else float(found[1]) * _UNITS[found[2].lower()]


def key_in(base: type[DeclarativeBase], word: str) -> ShardKey:
    """Return the shard key that a word means: a number where the models have numbers, else the text."""
    rules = [(mapper, rule_of(mapper.class_)) for mapper in base.registry.mappers if issubclass(mapper.class_, Sharded)]
    kinds = {mapper.columns[rule.key[0]].type.python_type for mapper, rule in rules if len(rule.key) == 1}
    if len(kinds) != 1 or not kinds <= {int, str, UUID}:
        expected = "models with shard keys of one column, all int, str or UUID"
        found = ", ".join(sorted(kind.__name__ for kind in kinds)) or "keys of several columns"
        raise InvalidInput("--models", found, expected, "Do it in a program, which can name such keys.")
    (kind,) = kinds
    try:
        return kind(word)  # type: ignore[no-any-return]
    except ValueError as error:
        raise InvalidInput("key", word, f"a value of {kind.__name__}", "Look at the models.") from error


def text_key(word: str) -> str:
    """Return a word that is a key of text; `InvalidInput` for one that could be a key of another type."""
    for kind in (int, UUID):
        try:
            kind(word)
        except ValueError:
            continue
        hint = "Name the models, which have the type: --models MODULE:Base"
        raise InvalidInput("key", word, f"--models for a key that could be of {kind.__name__}", hint)
    return word


def base_at(place: str) -> type[DeclarativeBase]:
    """Return the declarative base of a program."""
    found = named_in(place, "--models", _EXAMPLE)
    if not (isinstance(found, type) and issubclass(found, DeclarativeBase)) or hasattr(found, "__mapper__"):
        expected = "the base of the models, a subclass of sqlalchemy.orm.DeclarativeBase"
        raise InvalidInput("--models", place, expected, _EXAMPLE)
    return found


def named_in(place: str, field: str, example: str) -> object:
    """Return the value at a place in a program, such as `shop.models:Base`. None if the module has no such name."""
    module, mark, name = place.partition(":")
    if not (mark and name.isidentifier() and all(each.isidentifier() for each in module.split("."))):
        raise InvalidInput(field, place, "a module and a name in it", example)
    found: object = getattr(imported(module, field), name, None)
    return found
