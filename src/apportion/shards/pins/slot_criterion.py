"""Slot criterion: the condition of the slot, beside the other conditions of a statement. It is joined to them by AND.

A condition with text stands in the statement as it is. An OR, an ORDER BY or a comment in the text would end the
criterion. So the criterion examines its neighbours when the statement is compiled. That costs nothing later.

Refuses (`InvalidInput`): such text outside of parentheses, in WHERE and in ON, and text that closes a parenthesis.
Source: https://docs.sqlalchemy.org/en/20/core/compiler.html
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Case, Cast, ClauseElement, ColumnClause, Join
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import GroupedElement, Grouping
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import FromGrouping, SelectBase

from apportion.errors import InvalidInput

_CLOSED = (GroupedElement, SelectBase, FunctionElement, Case, Cast)
_PART = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\w+|--|/\*|\S""")
_ENDS = frozenset(
    ["OR", "ORDER", "GROUP", "HAVING", "LIMIT", "OFFSET", "FETCH", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "FOR"]
)
_BREAKS = frozenset(("--", "/*", ";", "'", '"', "`"))


class SlotCriterion(Grouping[bool]):
    """The condition that a row lies in the pinned slots."""

    inherit_cache: bool | None = True


@compiles(SlotCriterion)
def _compiled(criterion: SlotCriterion, compiler: Any, **options: Any) -> str:  # noqa: ANN401 - of the compiler
    for conditions in _joined(compiler.current_executable):
        leaves = [leaf for each in conditions for leaf in _leaves(each)]
        ends = _ENDS if any(isinstance(leaf, SlotCriterion) for leaf in leaves) else frozenset[str]()
        for leaf in leaves:
            _check(leaf, ends)
    return str(compiler.visit_grouping(criterion, **options))


def _joined(statement: Any) -> Iterator[Iterable[ClauseElement]]:  # noqa: ANN401 - any compiled statement
    """Yield the conditions of a statement that AND joins: those of WHERE, and those of each ON."""
    yield getattr(statement, "_where_criteria", ())
    sources = [*getattr(statement, "_from_obj", ())]
    while sources:
        source = sources.pop()
        if isinstance(source, FromGrouping):
            sources.append(source.element)
        if isinstance(source, Join):
            sources += [source.left, source.right]
            if source.onclause is not None:
                yield (source.onclause,)


def _leaves(condition: Any) -> Iterator[ClauseElement]:  # noqa: ANN401 - any condition
    """Yield the parts of a condition that stand in the statement without parentheses around them."""
    is_whole = condition._is_text_clause or isinstance(condition, _CLOSED)
    parts = () if is_whole else tuple(condition.get_children())
    for each in parts:
        yield from _leaves(each)
    if not parts:
        yield condition


def _check(leaf: ClauseElement, ends: frozenset[str]) -> None:
    """Raise `InvalidInput` if a part would end the condition beside it. `ends` are the words that would."""
    if isinstance(leaf, Grouping):
        for inner in _leaves(leaf.element):
            _check_text(inner, frozenset())
    else:
        _check_text(leaf, ends)


def _check_text(leaf: ClauseElement, ends: frozenset[str]) -> None:
    text = _text_of(leaf)
    if text is not None and _is_open(text, ends):
        hint = "Put the text in parentheses, as in text('(a OR b)'), or use or_(), order_by() and their like."
        raise InvalidInput("text in a condition", text, "no OR, ORDER BY or comment outside of parentheses", hint)


def _text_of(leaf: ClauseElement) -> str | None:
    if isinstance(leaf, ColumnClause):
        return leaf.name if leaf.is_literal else None
    return f"{getattr(leaf, 'text', ';')}" if leaf._is_text_clause else None


def _is_open(text: str, ends: frozenset[str]) -> bool:
    """Whether a text ends the condition around it.

    >>> [_is_open(each, _ENDS) for each in ("a OR b", "(a OR b)", "a = 'x OR y'", "a) AND (b", "a -- b", "(a")]
    [True, False, False, True, True, True]
    """
    depth = 0
    for part in _PART.findall(text):
        depth += (part == "(") - (part == ")")
        if depth < 0 or part in _BREAKS or (depth == 0 and part.upper() in ends):
            return True
    return depth != 0
