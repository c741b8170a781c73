"""Pinned slot: the slot of the current transaction, as an SQL expression. The database itself fills in its value.

The fence sets the value when a transaction begins. So a statement has the same text for every slot, and no parameter.
SQLAlchemy compiles it once, and compares no parameters of criteria at each execution.
Source: https://docs.sqlalchemy.org/en/20/core/compiler.html
"""

from typing import Any

from sqlalchemy import SmallInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

FUNCTION = "apportion_slot"
"""The SQL function of SQLite, which the fence registers on each connection."""


class PinnedSlot(FunctionElement[int]):
    """The slot that the transaction is pinned to."""

    type: TypeEngine[int] = SmallInteger()
    inherit_cache: bool | None = True


@compiles(PinnedSlot, "sqlite")
def _of_sqlite(*_: Any, **__: Any) -> str:  # noqa: ANN401 - of the compiler
    return f"{FUNCTION}()"


@compiles(PinnedSlot, "postgresql")
def _of_postgres(*_: Any, **__: Any) -> str:  # noqa: ANN401 - of the compiler
    return "CAST(current_setting('apportion.slots') AS SMALLINT)"
