"""The driver of PostgreSQL, and the types of its parameters and rows. An error tells how to install the driver."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from apportion.errors import MissingExtra

try:
    import psycopg
except ImportError as _error:
    raise MissingExtra("the client of PostgreSQL (psycopg)", "postgres") from _error

__all__ = ["Connection", "Parameter", "Parameters", "Row", "Value", "psycopg"]
Value: TypeAlias = bytes | str | int | float | bool | list[int] | None
Row: TypeAlias = tuple[Value, ...]
Parameter: TypeAlias = bytes | str | int | float | Sequence[bytes] | Sequence[int | None] | Sequence[str | None] | None
Parameters: TypeAlias = Sequence[Parameter] | Mapping[str, Parameter]
Connection: TypeAlias = "psycopg.AsyncConnection[Row]"
