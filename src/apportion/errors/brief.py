"""Brief: a `repr` of at most 200 characters, for a class that may hold a million values.

Promises: a `repr` reads the first values of a long tuple or mapping only. A short value is shown as a dataclass
shows it. A password in a URL is removed.
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import TypeVar

from apportion.errors.shown import shown

MOST_CHARACTERS = 200
_WHOLE, _FIRST = 8, 3

Kind = TypeVar("Kind")


def brief(kind: type[Kind]) -> type[Kind]:
    """Give a class a brief `repr`. A class with a `repr` of its own keeps that text, cut.

    A dataclass or a named tuple without one shows its fields.
    """
    has_own = not getattr(kind, "__dataclass_params__").repr if is_dataclass(kind) else not hasattr(kind, "_fields")  # noqa: B009
    written = kind.__repr__ if has_own else _fields_of

    def __repr__(self: Kind) -> str:  # noqa: N807
        text = written(self)
        return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"

    kind.__repr__ = __repr__  # type: ignore[method-assign, assignment]
    return kind


def _fields_of(value: object) -> str:
    names: Iterable[str] = getattr(value, "_fields", ())
    shown_fields = names or [each.name for each in fields(value) if each.repr]  # type: ignore[arg-type]
    return f"{type(value).__qualname__}({', '.join(f'{name}={_part(getattr(value, name))}' for name in shown_fields)})"


def _part(value: object) -> str:
    if isinstance(value, (str, bytes)):
        return shown(value)
    if type(value) is tuple:
        return f"({_some(map(_part, value), len(value))}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return f"{{{_some((f'{_part(key)}: {_part(each)}' for key, each in value.items()), len(value))}}}"
    return repr(value)


def _some(parts: Iterable[str], count: int) -> str:
    if count <= _WHOLE:
        return ", ".join(parts)
    return f"{', '.join(islice(parts, _FIRST))}, … {count - _FIRST} more"
