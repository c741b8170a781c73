"""JSON values: turns values of a program into bytes, and back into an annotated type, with msgspec and pydantic.

Promises: JSON types, datetime, UUID, Decimal, bytes, enums, dataclasses and pydantic models are decoded to their type.
A value that does not fit the type raises `ValueError` or `TypeError`.
Refuses: to import pydantic. Models work only if the program has imported pydantic.
"""

import sys
from typing import TYPE_CHECKING, Any

from apportion.errors import MissingExtra

if TYPE_CHECKING:
    from types import ModuleType


def as_json(value: object) -> bytes:
    """Return a value as bytes; `TypeError` for a value that JSON cannot hold."""
    return bytes(_msgspec().json.encode(value, enc_hook=_plain))


def of_json(data: bytes) -> Any:  # noqa: ANN401 - whatever was encoded
    """Return bytes decoded to JSON types; `ValueError` for bytes that are not JSON."""
    return _msgspec().json.decode(data)


def as_kind(value: object, kind: Any) -> Any:  # noqa: ANN401 - a type, as annotations write it
    """Return JSON types as a value of a type; `ValueError` if they do not fit, `TypeError` for a type outside JSON."""
    return value if kind in (Any, type(value)) else _msgspec().convert(value, kind, str_keys=True, dec_hook=_model)


def _plain(value: object) -> object:
    """Return a pydantic model as JSON types."""
    if not _is_model(type(value)):
        raise TypeError(f"JSON cannot hold a {type(value).__name__}")
    dumped: object = value.model_dump(mode="json", by_alias=True, round_trip=True)  # type: ignore[attr-defined]
    return dumped


def _model(kind: type, value: object) -> object:
    """Return JSON types as a pydantic model, by pydantic's rules for JSON."""
    if not _is_model(kind):
        raise TypeError(f"JSON cannot hold a {kind.__name__}")
    return kind.model_validate_json(as_json(value))  # type: ignore[attr-defined]


def _is_model(kind: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _msgspec() -> "ModuleType":
    try:
        import msgspec  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("msgspec", "tasks") from error
    return msgspec
