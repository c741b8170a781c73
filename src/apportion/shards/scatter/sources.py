"""Sources of a statement: the tables that a query and the queries within it read, and whether they lie together.

A query within an expression may read sources of the queries around it. Which of them, SQLAlchemy decides: a table of
its FROM is taken from the query directly around it, if that query reads the table too. So it lies with the sources
around it if a condition ties it to them.

Refuses: sources that are no models. The criterion that leaves out rows of other slots reaches models alone.
Source: https://docs.sqlalchemy.org/en/20/core/selectable.html#sqlalchemy.sql.expression.Select.correlate
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CTE, BinaryExpression, Join, Select, Subquery, Table
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import Over
from sqlalchemy.sql.selectable import Alias, Exists
from sqlalchemy.sql.visitors import iterate

from apportion.shards.scatter.colocation import SetTables, Sources, node_of
from apportion.shards.scatter.parts import check_select, columns_of, inner_queries, is_plain, on_clauses, sources_of
from apportion.shards.scatter.refusal import refuse
from apportion.shards.scatter.vocabulary import check_expression

_MEMBERSHIP = (operators.in_op, operators.not_in_op)
_TOGETHER = "join them by the shard key, or by the foreign key to the parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterSources:
    """The sources of the queries around one: those of the query directly around it, and those of all."""

    nearest: frozenset[object] = frozenset()
    every: frozenset[object] = frozenset()


_NOTHING = OuterSources()


class QuerySources:
    """The sources of one query."""

    def __init__(self, tables: SetTables, known: Sources | None = None) -> None:
        self._tables = tables
        self.known: Sources = Sources(tables) if known is None else known

    def read(self, select: Select[Any], around: OuterSources = _NOTHING, container: Any = None) -> list[object]:  # noqa: ANN401 - a part
        """Add the sources of a query, and return them. Refuse sources that do not lie together.

        `container` is the part of the query around it that contains it.
        """
        check_select(select)
        own = self._own(select, around)
        seen = around.every | frozenset(own)
        expressions = _expressions(select, container)
        for each in expressions:
            check_expression(each, seen, own)
        self.known.note(select._where_criteria)
        if isinstance(container, BinaryExpression) and container.operator in _MEMBERSHIP:
            self._note_member(select, container.left)
        for part, inner in inner_queries(expressions):
            nested = QuerySources(self._tables, self.known.copied())
            nested.read(inner, OuterSources(nearest=frozenset(own), every=seen), part)
        sharded = [each for each in self.known.sharded if each in seen]
        if not self.known.is_connected(sharded):
            names = " and ".join(sorted({self.known.names[each] for each in sharded}))
            refuse(f"rows of {names} that belong together may lie on several shards: {_TOGETHER}")
        return own

    def are_windows_local(self, expressions: Iterable[Any]) -> bool:
        """Whether each window reads rows of one shard alone."""
        windows = [part for each in expressions for part in iterate(each) if isinstance(part, Over)]
        return all(
            self.known.decides(map(node_of, () if each.partition_by is None else each.partition_by)) for each in windows
        )

    def _own(self, select: Select[Any], around: OuterSources) -> list[object]:
        """Add the sources that belong to a query alone, and return them."""
        sources = sources_of(select)
        if select._correlate:
            sources = [each for each in sources if not (each in around.every and each in select._correlate)]
        if select._correlate_except is not None:
            sources = [each for each in sources if each not in around.every.difference(select._correlate_except)]
        if select._auto_correlate and len(sources) > 1:
            sources = [each for each in sources if each not in around.nearest]
        own = [each for source in sources for each in self._walked(source)]
        if around.every and not own:
            refuse("a query within it has no table of its own in FROM")
        return own

    def _walked(self, source: Any) -> list[object]:  # noqa: ANN401 - a source
        if isinstance(source, Join):
            return self._joined(source)
        if isinstance(source, Subquery | CTE):
            refuse("it reads from a query in FROM, or from a CTE: scatter that query, and go on with its answer")
        table = source.element if isinstance(source, Alias) else source
        tables = [*self._tables.sharded, *self._tables.references] if isinstance(table, Table) else []
        known = next((each for each in tables if table == each), None)
        if known is None:
            refuse(f"it reads from {source}, which is neither a sharded table nor a reference table")
        self.known.add(source, known)
        return [source]

    def _joined(self, join: Join) -> list[object]:
        left, right = self._walked(join.left), self._walked(join.right)
        if not join.isouter:
            self.known.note([join.onclause])
            return [*left, *right]
        here, there = self._sharded(left), self._sharded(right)
        if there and not here:
            refuse("an outer join keeps rows of reference tables, which every shard has")
        known, trial = self.known, self.known.copied()
        trial.note([join.onclause])
        # The condition need not hold for the rows that are kept. So these have to lie together without it.
        if not (known.is_connected(here) and trial.is_connected([*here, *there])):
            refuse(f"rows of an outer join may lie on several shards: {_TOGETHER}")
        known.tie([*here[:1], *there])
        known.optional.update(right)
        return [*left, *right]

    def _sharded(self, sources: Sequence[object]) -> list[object]:
        return [each for each in sources if each in self.known.sharded]

    def _note_member(self, select: Select[Any], member: Any) -> None:  # noqa: ANN401 - an expression
        """Note `member IN (query)` as an equality. A NULL on either side, and rows of other shards, would change it."""
        column, *others = columns_of(select)
        if not others and is_plain(select) and self._is_never_null(member) and self._is_never_null(column):
            self.known.equal(member, column)

    def _is_never_null(self, column: Any) -> bool:  # noqa: ANN401 - an expression
        node = node_of(column)
        return node is not None and node[0] not in self.known.optional and not getattr(column, "nullable", True)


def _expressions(select: Select[Any], container: Any) -> list[Any]:  # noqa: ANN401 - a part
    """Return the expressions of a query. The columns of EXISTS are those that SQLAlchemy writes, 1 or *."""
    columns = [] if isinstance(container, Exists) else columns_of(select)
    groups = [*select._order_by_clauses, *select._group_by_clauses]
    return [*columns, *select._where_criteria, *select._having_criteria, *groups, *on_clauses(select)]
