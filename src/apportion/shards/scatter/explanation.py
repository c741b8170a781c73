"""Explanation: how a statement would be answered over all shards, in words."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import CompileError
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import UnknownOption
from apportion.shards.models import check_models
from apportion.shards.scatter.analysis import analysed
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.plan import ScatterPlan

_DIALECTS = {"postgresql": postgresql.dialect, "sqlite": sqlite.dialect}


def explain(statement: Any, *, base: type[DeclarativeBase], dialect: str = "postgresql") -> str:  # noqa: ANN401 - a select
    """Return how `router.scatter` would split a `select()`, and merge the rows. No shard is asked.

    - `base`: the base of the models of the set.
    - `dialect`: the databases of the shards, `"postgresql"` or `"sqlite"`. Default: `"postgresql"`.

        print(shards.explain(select(Place.country, func.count()).group_by(Place.country), base=Base))

    `NotScatterable`: the shards cannot answer together; it has the reason.
    """
    check_models(base)
    if dialect not in _DIALECTS:
        raise UnknownOption("dialect", dialect, tuple(_DIALECTS))
    plan = analysed(statement, SetTables.of(base), dialect)
    lines = (f"  {line.strip()}" for line in _written(plan, dialect).splitlines())
    return "\n".join(["Each shard runs:", *lines, *_merge(plan)])


def _written(plan: ScatterPlan, dialect: str) -> str:
    """Return the statement of a shard with its values, or without those that cannot be written as text."""
    try:
        return f"{plan.statement.compile(dialect=_DIALECTS[dialect](), compile_kwargs={'literal_binds': True})}"
    except CompileError:
        return f"{plan.statement.compile(dialect=_DIALECTS[dialect]())}"


def _merge(plan: ScatterPlan) -> Iterator[str]:
    """Yield the steps after the shards have answered."""
    if plan.groups is None:
        yield "The rows of all shards are the rows of the result."
    else:
        columns, keys = len(plan.groups.outputs), len(plan.groups.keys)
        yield f"The parts of each group are combined: {columns} columns by {keys} keys."
        if plan.groups.having is not None:
            yield "HAVING is applied to the combined groups."
    if plan.order:
        steps = "sorted" if plan.groups else "merged in order"
        yield f"They are {steps}: {', '.join(_direction(plan, place) for place in range(len(plan.order)))}."
    if plan.is_distinct:
        yield "Equal rows of several shards are one."
    if plan.limit is not None or plan.offset:
        yield f"OFFSET {plan.offset} and LIMIT {'all' if plan.limit is None else plan.limit} are applied at the end."


def _direction(plan: ScatterPlan, place: int) -> str:
    key = plan.order[place]
    direction = "DESC" if key.is_descending else "ASC"
    return f"column {key.place + 1} {direction} NULLS {'FIRST' if key.has_nulls_first else 'LAST'}"
