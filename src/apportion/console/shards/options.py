"""Options of the commands of shards: the shards of a set, and the models of a program."""

import re
from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter
from sqlalchemy.orm import DeclarativeBase

from apportion.console.options.edits import ids_in, pairs_in, weight_in
from apportion.console.options.program import imported
from apportion.errors import InvalidInput
from apportion.shards.models import Sharded, rule_of
from apportion.shards.slots import ShardKey

SetName = Annotated[str, Parameter(name="SET", help="Name of the set.")]
Models = Annotated[str, Parameter(help="Module and name of the declarative base, such as shop.models:Base.")]

_UNITS = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([kmg]?b)/s", re.IGNORECASE | re.ASCII)

_EXAMPLE = "Write for example --models shop.models:Base"


def shards_of(words: Sequence[str]) -> dict[str, str]:
    """Return the URL of each shard by its id."""
    found: dict[str, str] = {}
    for word in words:
        shard, mark, url = word.partition("=")
        if not mark or not shard or "://" not in url:
            said = "(not shown)" if "@" in word else word
            raise InvalidInput("--shard", said, "ID=URL", "Write for example --shard one=sqlite:///one.db")
        if shard in found:
            raise InvalidInput("--shard", shard, "each id once", "Leave one of them out.")
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
    found = _RATE.fullmatch(word)
    rate = 0.0 if found is None else float(found[1]) * _UNITS[found[2].lower()]
    if not rate:
        raise InvalidInput(
            "--rate", word, "a number above 0 with B/s, kB/s, MB/s or GB/s", "Write for example --rate 5MB/s"
        )
    return rate


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
    module, mark, name = place.partition(":")
    if not (mark and name.isidentifier() and all(each.isidentifier() for each in module.split("."))):
        raise InvalidInput("--models", place, "a module and a name in it", _EXAMPLE)
    found = getattr(imported(module, "--models"), name, None)
    if not (isinstance(found, type) and issubclass(found, DeclarativeBase)) or hasattr(found, "__mapper__"):
        expected = "the base of the models, a subclass of sqlalchemy.orm.DeclarativeBase"
        raise InvalidInput("--models", place, expected, _EXAMPLE)
    return found
