"""Reach: the check that the criterion of the slot reaches every model in a statement.

SQLAlchemy adds no criterion to some queries: they name columns of a model only within `exists()`, `over()`, `filter()`,
`and_()` or `or_()`. It takes such a query for a statement of Core, which would read every slot.

Promises: a statement is checked when it is compiled, so later executions cost nothing.
Refuses (`InvalidInput`): such a query, also as a part of another statement.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import CTE, ClauseElement, Select
from sqlalchemy.orm.util import LoaderCriteriaOption
from sqlalchemy.sql.selectable import SelectBase
from sqlalchemy.sql.visitors import iterate

from apportion.errors import InvalidInput
from apportion.shards.models import Sharded


class SlotOption(LoaderCriteriaOption):
    """The criterion of the slot for all sharded models of a statement."""

    _traverse_internals = LoaderCriteriaOption._traverse_internals

    def process_compile_state(self, compile_state: Any) -> None:  # noqa: ANN401 - of SQLAlchemy
        """Check the statement, then add the criterion."""
        statement = getattr(compile_state, "select_statement", None)
        if statement is not None:
            check_parts(statement)
        super().process_compile_state(compile_state)


class OneSlotOption(SlotOption):
    """The criterion of the slot that the transaction is pinned to.

    There is one such option. So SQLAlchemy need not derive its cache key anew at each execution.
    """

    _traverse_internals = LoaderCriteriaOption._traverse_internals

    def _gen_cache_key(self, *_: object) -> tuple[object, ...]:
        return (OneSlotOption,)


def check_core(statement: Any) -> None:  # noqa: ANN401 - any statement
    """Raise `InvalidInput` if a statement that SQLAlchemy takes for one of Core names a sharded model."""
    if isinstance(statement, ClauseElement):
        _check(iterate(statement))


def check_parts(statement: Any) -> bool:  # noqa: ANN401 - a statement of the ORM
    """Raise `InvalidInput` if a query within a statement names a sharded model, and would get no criterion.

    Return whether the statement has a CTE.
    """
    has_cte = False
    for part in iterate(statement):
        if isinstance(part, Select) and part._propagate_attrs.get("compile_state_plugin") != "orm":
            _check(_within(part))
        has_cte = has_cte or isinstance(part, CTE)
    return has_cte


def _within(query: ClauseElement) -> Iterator[ClauseElement]:
    """Yield the parts of a query without those of its subqueries."""
    for part in query.get_children():
        yield part
        if not isinstance(part, SelectBase):
            yield from _within(part)


def _check(parts: Iterator[Any]) -> None:
    for part in parts:
        mapper = part._annotations.get("parentmapper")
        if mapper is not None and issubclass(mapper.class_, Sharded):
            name = mapper.class_.__name__
            hint = f"Name the model: select(...).select_from({name}), or select({name}).where(...).exists()."
            found = f"one with columns of {name} in expressions alone"
            raise InvalidInput("query", found, "one that selects from the model", hint)
