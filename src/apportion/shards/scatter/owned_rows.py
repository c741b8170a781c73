"""Owned rows: the criterion that leaves out rows of slots for which a shard does not answer.

SQLAlchemy adds the criterion to the models of a statement, and not to tables without a model.

Promises: a statement is compiled with the criterion before any shard is asked, and its criteria are counted.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import Dialect, Select, literal_column
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm.util import LoaderCriteriaOption

from apportion.shards.models import Sharded
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.refusal import refuse

_MARK = "apportion_reached"


@lru_cache(maxsize=256)
def without(slots: tuple[int, ...]) -> Any:  # noqa: ANN401 - an option of a statement
    """Return the option that leaves out the rows of slots."""
    return LoaderCriteriaOption(Sharded, lambda model: model.slot.not_in(slots), include_aliases=True)


def check_reached(statement: Select[Any], dialect: str, tables: SetTables) -> None:
    """Refuse a statement unless the criterion reaches a sharded table wherever the statement reads one."""
    compiled: Any = statement.options(_marked()).compile(dialect=_dialect(dialect))
    if compiled.string.count(_MARK) != sum(each in tables.sharded for each in getattr(compiled, "tables_read", ())):
        refuse("it reads a table without its model: add select_from(Model), and use models in place of tables")


@cache
def _marked() -> Any:  # noqa: ANN401 - an option of a statement
    mark: Any = literal_column(_MARK)
    return LoaderCriteriaOption(Sharded, lambda model: model.slot != mark, include_aliases=True)


@cache
def _dialect(name: str) -> Dialect:
    """Return a dialect. Its compiler notes in `tables_read` each table that it writes into a FROM."""
    dialect: Any = {"postgresql": postgresql.dialect, "sqlite": sqlite.dialect}[name]()
    own = dialect.statement_compiler
    dialect.statement_compiler = type("Compiler", (own,), {"visit_table": _noting(own.visit_table)})
    found: Dialect = dialect
    return found


def _noting(write: Callable[..., str]) -> Callable[..., str]:
    def _visit(compiler: Any, table: Any, asfrom: bool = False, **options: Any) -> str:  # noqa: ANN401 - of SQLAlchemy
        if asfrom:
            compiler.tables_read = [*getattr(compiler, "tables_read", ()), table]
        return write(compiler, table, asfrom=asfrom, **options)

    return _visit
