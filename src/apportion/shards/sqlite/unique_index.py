"""Unique index: a rule by which two rows cannot both be in a table, as SQL that finds the rivals of other rows.

A rule may hold for expressions, for some rows only, or under a collation of its own. The catalog of SQLite does not
tell expressions and conditions. So they are read from the statement that made the index.

Source: https://www.sqlite.org/expridx.html, https://www.sqlite.org/partialindex.html
"""

# ruff: noqa: S608 - names are quoted

import re
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass

from apportion.shards.sqlite.schema import quoted

_WORD = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^]]*]|--[^\n]*|/\*.*?\*/|\w+|.""", re.DOTALL)
_ORDER = re.compile(r"\s(?:ASC|DESC)\s*$", re.IGNORECASE)
_WHERE = re.compile(r"\s*WHERE\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueIndex:
    """One rule. No two rows that fulfil `condition` have equal `terms`. Without a condition, it is "".

    `columns` are the columns of the table that the terms and the condition may name.
    """

    terms: tuple[str, ...]
    columns: tuple[str, ...]
    condition: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the terms in `query`."""
        return tuple(f"apportion_{place}" for place in range(len(self.terms)))

    def query(self, rows: str, *others: str) -> str:
        """Return the query for the terms of the rows that fulfil the condition, and for other columns of them."""
        named = [f"({term}) AS {name}" for term, name in zip(self.terms, self.names, strict=True)]
        return f"SELECT {', '.join([*named, *others])} FROM {rows} WHERE {self.condition or 'true'}"

    def rivals(self, rows: str) -> str:
        """Return the condition for rows of the table that cannot be there beside some other rows."""
        terms = ", ".join(f"({term})" for term in self.terms)
        return f"({terms}) IN ({self.query(rows)}) AND ({self.condition or 'true'})"


def unique_indexes(connection: sqlite3.Connection, table: str, key: Collection[str]) -> tuple[UniqueIndex, ...]:
    """Return the rules of a table of `main`, except for those that its primary key implies. The key comes first."""
    described = connection.execute("SELECT name FROM pragma_table_xinfo(?, 'main')", (table,)).fetchall()
    everything = [name for (name,) in described]
    listed = """SELECT made.name, made.origin, kept.sql FROM pragma_index_list(?, 'main') made
        LEFT JOIN main.sqlite_master kept ON kept.type = 'index' AND kept.name = made.name WHERE made."unique"
        ORDER BY made.origin <> 'pk', made.name"""
    indexes = connection.execute(listed, (table,)).fetchall()
    has_index = any(origin == "pk" for _, origin, _ in indexes)  # an INTEGER PRIMARY KEY has none
    found = [] if has_index else [_index([*map(quoted, key)], "", everything)]
    for index, origin, statement in indexes:
        parts = "SELECT name, coll FROM pragma_index_xinfo(?, 'main') WHERE key ORDER BY seqno"
        columns = connection.execute(parts, (index,)).fetchall()
        if origin == "pk" or not set(key) <= {name for name, _ in columns}:
            plain = [f"{quoted(name or '')} COLLATE {quoted(collation)}" for name, collation in columns]
            found.append(_index(*((plain, "") if statement is None else _parsed(statement)), everything))
    return tuple(found)


def _index(terms: list[str], condition: str, columns: list[str]) -> UniqueIndex:
    text = " ".join([*terms, condition])
    named = tuple(each for each in columns if quoted(each) in text or re.search(rf"(?i)\b{re.escape(each)}\b", text))
    return UniqueIndex(terms=tuple(terms), condition=condition, columns=named or tuple(columns))


def _parsed(statement: str) -> tuple[list[str], str]:
    """Return the terms and the condition of a statement that makes an index.

    >>> _parsed("CREATE UNIQUE INDEX one ON t (lower(a), b DESC) WHERE c = 'x)'")
    (['lower(a)', 'b'], "c = 'x)'")
    """
    words = [" " if each.startswith(("--", "/*")) else each for each in _WORD.findall(statement)]
    depth, terms, end = 0, [""], 0
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 1 and word == ",":
            terms.append("")
        elif depth > 1 or (depth == 1 and word != "("):
            terms[-1] += word
        elif word == ")":
            end = place + 1
            break
    condition = _WHERE.sub("", "".join(words[end:]), count=1).strip()
    return [_ORDER.sub("", each.strip()).strip() for each in terms], condition
