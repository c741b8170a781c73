"""Sources of a statement: the tables that a query and the queries within it read, and whether they lie together.

A query in FROM is read as if its rows were those of a table, if they are the rows of all shards together. A query in an
expression sees the sources around it. So it lies with them if a condition ties it to them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import CTE, BinaryExpression, Join, Select, Subquery, Table
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import Over
from sqlalchemy.sql.selectable import Alias, FromGrouping, SelectStatementGrouping
from sqlalchemy.sql.visitors import iterate

from apportion.shards.scatter.colocation import SetTables, Sources, node_of, subqueries
from apportion.shards.scatter.parts import columns_of, groups_of, is_plain, refuse

_MEMBERSHIP = (operators.in_op, operators.not_in_op)
_TOGETHER = "join them by the shard key, or by the foreign key to the parent"


class QuerySources:
    """The sources of one query."""

    def __init__(self, tables: SetTables, known: Sources | None = None) -> None:
        self._tables = tables
        self.known: Sources = Sources(tables) if known is None else known

    def read(self, select: Select[Any], outer: frozenset[object] = frozenset(), member: Any = None) -> list[object]:  # noqa: ANN401 - an expression
        """Add the sources of a query, and return them. Refuse sources that do not lie together.

        `outer` are the sources of the queries around it. `member` is an expression whose value is looked for in the
        rows of the query.
        """
        own = self._own(select, outer)
        self.known.note(select._where_criteria)
        if member is not None:
            self._note_member(select, member)
        seen = frozenset({*outer, *own})
        expressions = [*select._where_criteria, *select._having_criteria, *columns_of(select), *_on_clauses(select)]
        expressions += [*select._order_by_clauses, *select._group_by_clauses]
        for container, inner in subqueries([_Expressions(expressions)]):
            is_member = isinstance(container, BinaryExpression) and container.operator in _MEMBERSHIP
            nested = QuerySources(self._tables, self.known.copied())
            nested.read(inner, seen, container.left if is_member else None)
        sharded = [each for each in self.known.sharded if each in seen]
        if not self.known.is_connected(sharded):
            names = " and ".join(sorted({self.known.names[each] for each in sharded}))
            refuse(f"rows of {names} that belong together may lie on several shards: {_TOGETHER}")
        return own

    def is_local(self, select: Select[Any]) -> bool:
        """Whether the rows of a query that was read are those of all shards together."""
        columns = columns_of(select)
        if select._limit_clause is not None or select._offset_clause is not None or not self.are_windows_local(columns):
            return False
        if select._distinct:
            return self.known.decides(map(node_of, columns))
        return is_plain(select) or self.known.decides(map(node_of, groups_of(select)))

    def are_windows_local(self, expressions: Iterable[Any]) -> bool:
        """Whether each window reads rows of one shard alone."""
        windows = [part for each in expressions for part in iterate(each) if isinstance(part, Over)]
        return all(
            self.known.decides(map(node_of, () if each.partition_by is None else each.partition_by)) for each in windows
        )

    def _own(self, select: Select[Any], outer: frozenset[object]) -> list[object]:
        """Add the sources that belong to a query alone. SQLAlchemy leaves out those that it takes from outside."""
        sources, shared = select.get_final_froms(), frozenset[object]()
        if select._correlate:
            shared = frozenset(each for each in outer if each in {*select._correlate})
        elif select._correlate_except is not None:
            shared = frozenset(each for each in outer if each not in {*select._correlate_except})
        else:
            shared = outer if len(sources) > 1 else shared
        return [each for source in sources for each in self._walked(source, shared)]

    def _walked(self, source: Any, shared: frozenset[object]) -> list[object]:  # noqa: ANN401 - a source
        if isinstance(source, FromGrouping):
            return self._walked(source.element, shared)
        if isinstance(source, Join):
            return self._joined(source, shared)
        if isinstance(source, Subquery | CTE):
            return self._derived(source)
        table = source.element if isinstance(source, Alias) else source
        known = next((each for each in (*self._tables.sharded, *self._tables.references) if table == each), None)
        if not isinstance(table, Table) or known is None:
            refuse(f"it reads from {source}, which is neither a sharded table nor a reference table")
        key = source if isinstance(source, Alias) else known
        if key in shared:
            return []
        self.known.add(key, known)
        return [key]

    def _joined(self, join: Join, shared: frozenset[object]) -> list[object]:
        left, right = self._walked(join.left, shared), self._walked(join.right, shared)
        if not (join.full or join.isouter):
            self.known.note([join.onclause])
            return [*left, *right]
        here, there = self._sharded(left), self._sharded(right)
        if (there and not here) or (join.full and len(here) + len(there) < len(left) + len(right)):
            refuse("an outer join keeps rows of reference tables, which every shard has")
        known, trial = self.known, self.known.copied()
        trial.note([join.onclause])
        if not trial.is_connected([*here, *there]):
            refuse(f"rows of an outer join may lie on several shards: {_TOGETHER}")
        known.tie([*here, *there])
        known.optional.update([*there, *(here if join.full else ())])
        return [*left, *right]

    def _sharded(self, sources: Sequence[object]) -> list[object]:
        return [each for each in sources if each in self.known.sharded]

    def _derived(self, source: Any) -> list[object]:  # noqa: ANN401 - a subquery or CTE
        """Add the sources of a query in FROM."""
        inner = source.element
        while isinstance(inner, SelectStatementGrouping):
            inner = inner.element
        if not isinstance(inner, Select):
            refuse(f"it reads from a {type(inner).__name__}")
        own = self.read(inner)
        if not self.is_local(inner):
            refuse("a query in FROM has a limit, or groups that are spread over shards")
        return own

    def _note_member(self, select: Select[Any], member: Any) -> None:  # noqa: ANN401 - an expression
        """Note `member IN (query)` as an equality, unless a NULL among the rows of another shard could change it."""
        column, *others = columns_of(select)
        if not others and not getattr(column, "nullable", True) and is_plain(select):
            self.known.equal(node_of(member), node_of(column))


class _Expressions:
    """Expressions as the children of one part."""

    def __init__(self, expressions: Sequence[Any]) -> None:
        self._expressions = expressions

    def get_children(self) -> Sequence[Any]:
        """Return the expressions."""
        return self._expressions


def _on_clauses(select: Select[Any]) -> list[Any]:
    found, sources = list[Any](), [*select.get_final_froms()]
    while sources:
        source = sources.pop()
        if isinstance(source, FromGrouping):
            sources.append(source.element)
        if isinstance(source, Join):
            sources += [source.left, source.right]
            found += [] if source.onclause is None else [source.onclause]
    return found
