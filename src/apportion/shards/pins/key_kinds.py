"""Kinds of keys: numbers and text. A key of the wrong kind has another slot, although a database may store it alike.

7 and "7" have two slots. A column of numbers in SQLite or PostgreSQL takes both, and stores 7. So such a row would lie
where no program looks for it.

Promises: nothing is guessed. A column with a type that may convert values, such as an enumeration, takes each kind.
"""

from collections.abc import Sequence
from functools import cache
from numbers import Integral
from typing import TypeAlias

from sqlalchemy import Enum, Integer, String, Uuid
from sqlalchemy.orm import DeclarativeBase, class_mapper

from apportion.errors import InvalidInput
from apportion.shards.models import Sharded, rule_of
from apportion.shards.slots import ShardKey

Kinds: TypeAlias = tuple[bool | None, ...]
"""For each column of a shard key, whether it is a number. None for a column that takes each kind."""

_HINT = 'Convert it first: 7 and "7" have two slots.'


class KeyKinds:
    """The kinds of keys that the models of a base have."""

    def __init__(self, base: type[DeclarativeBase]) -> None:
        self._registry = base.registry
        self._known: set[Kinds] = set()

    def checked(self, key: ShardKey) -> ShardKey:
        """Return the key. `InvalidInput` for a kind of key that no model has. Each kind is looked up once."""
        kinds = _kinds_of(key)
        if kinds not in self._known:
            models: list[type] = [each.class_ for each in self._registry.mappers if issubclass(each.class_, Sharded)]
            wanted = {_kinds_in(model) for model in models if rule_of(model).key}
            if not any(_fits(kinds, each) for each in wanted):
                raise InvalidInput("key", key, " or ".join(sorted(map(_said, wanted))), _HINT)
            self._known.add(kinds)
        return key


def check_kind(model: type, key: ShardKey) -> None:
    """Raise `InvalidInput` if a key is of another kind than the columns of its model."""
    wanted = _kinds_in(model)
    if not _fits(_kinds_of(key), wanted):
        raise InvalidInput(f"shard key of {model.__name__}", key, _said(wanted), _HINT)


def fits(key: ShardKey, columns: Sequence[object]) -> bool:
    """Whether a key is of the kind of columns with these types."""
    return _fits(_kinds_of(key), tuple(map(_kind, columns)))


def _kinds_of(key: ShardKey) -> Kinds:
    return tuple(isinstance(each, Integral) for each in (key if isinstance(key, tuple) else (key,)))


@cache
def _kinds_in(model: type) -> Kinds:
    columns = class_mapper(model).columns
    return tuple(_kind(columns[name].type) for name in rule_of(model).key)


def _kind(column: object) -> bool | None:
    if isinstance(column, Integer):
        return True
    return False if isinstance(column, Uuid | String) and not isinstance(column, Enum) else None


def _fits(kinds: Kinds, wanted: Kinds) -> bool:
    is_fitting = (each is None or kind == each for kind, each in zip(kinds, wanted, strict=False))
    return len(kinds) == len(wanted) and all(is_fitting)


def _said(kinds: Kinds) -> str:
    words = ", ".join("a value" if kind is None else "an int" if kind else "a str or UUID" for kind in kinds)
    return words if len(kinds) == 1 else f"a tuple of {words}"
