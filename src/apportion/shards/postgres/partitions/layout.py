"""Layout of a timed table in PostgreSQL: one partition for each period, and one with an open end on either side.

    event_until_20260101   the rows before the first period
    event_20260101         the rows of January
    event_from_20260501    the rows after the last period

Partitions lie in a schema of their own, so tools that compare the tables of the models do not see them. Programs need
no right there, because the server asks for the rights on the table alone.

Promises: a row of any time has a partition. So no write fails if nobody makes new periods, and a move finds room for
its rows on a shard with other periods. The two open ends are ordinary ranges: a server detaches no partition
concurrently from a table with a default one.
Refuses: bounds that are not midnight UTC, and a default partition.
Source: https://www.postgresql.org/docs/current/ddl-partitioning.html#DDL-PARTITIONING-DECLARATIVE-MAINTENANCE
"""

# ruff: noqa: S608 - names are quoted, bounds are days

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from sqlalchemy import Connection, Table

from apportion.errors import InvalidInput
from apportion.shards.periods.period import next_start, start_of
from apportion.shards.periods.timed_table import TimedTable, timed_of

SCHEMA = "apportion_periods"
FIRST_PERIODS = 4
"""The periods that `init` makes: the present one, and three that follow."""

_EDGE = r"(?:'(\d{4}-\d\d-\d\d)(?: 00:00:00(?:\+00)?)?'|M(?:IN|AX)VALUE)"
_BOUNDS = re.compile(rf"FOR VALUES FROM \({_EDGE}\) TO \({_EDGE}\)")
_LIKE = "INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE"
_KIND = "SELECT relkind::text, pg_get_partkeydef(oid) FROM pg_class WHERE oid = to_regclass(%s)"
_HAS_PARTS = "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhparent = to_regclass(%s))"
_RECIPE = (
    "Rename the table, let init make it anew in partitions, and copy the rows through pinned sessions: "
    "docs/shards/retention.md"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The days between which the rows of a partition lie. None is an open end."""

    lower: date | None
    upper: date | None

    @property
    def sql(self) -> str:
        """The bounds for SQL. Each day is midnight UTC."""
        lower = "MINVALUE" if self.lower is None else f"'{self.lower} 00:00:00+00'"
        upper = "MAXVALUE" if self.upper is None else f"'{self.upper} 00:00:00+00'"
        return f"FOR VALUES FROM ({lower}) TO ({upper})"

    def name(self, table: str) -> str:
        """Return the name of the partition of a table."""
        if self.lower is None:
            return f"{table}_until_{self.upper:%Y%m%d}"
        return f"{table}_from_{self.lower:%Y%m%d}" if self.upper is None else f"{table}_{self.lower:%Y%m%d}"


def bounds_in(partition: str, written: str) -> Bounds:
    """Return the bounds of a partition, as the server writes them in UTC.

    >>> bounds_in("event_x", "FOR VALUES FROM ('2026-01-01 00:00:00+00') TO (MAXVALUE)").lower
    datetime.date(2026, 1, 1)
    """
    found = _BOUNDS.fullmatch(written)
    if found is None:
        hint = "Detach it: apportion makes the partitions of a timed table. Then run the same command again."
        raise InvalidInput(f"partition {partition}", written, "a range of whole days in UTC", hint)
    lower, upper = (None if day is None else date.fromisoformat(day) for day in found.groups())
    return Bounds(lower=lower, upper=upper)


def bounds_of_name(timed: TimedTable, name: str) -> Bounds | None:
    """Return the bounds that the name of a detached partition tells. None for the name of another table.

    The name has the first day alone. So the upper bound of a partition of several periods comes out too low.
    """
    found = re.fullmatch(rf"{re.escape(timed.name)}_(until_|from_)?(\d{{4}})(\d\d)(\d\d)(?:_\d+)?", name)
    if found is None:
        return None
    side, *parts = found.groups()
    day = date(*map(int, parts))
    if side is None:
        return Bounds(lower=day, upper=next_start(timed.length, day))
    return Bounds(lower=None, upper=day) if side == "until_" else Bounds(lower=day, upper=None)


def quoted(name: str) -> str:
    """Return the name of a partition for SQL, with its schema."""
    return f'{SCHEMA}."' + name.replace('"', '""') + '"'


def first_bounds(timed: TimedTable, today: date) -> list[Bounds]:
    """Return the bounds of the first partitions of a table."""
    days = [start_of(timed.length, today)]
    for _ in range(FIRST_PERIODS):
        days.append(next_start(timed.length, days[-1]))
    ends = [None, *days, None]
    return [Bounds(lower=lower, upper=upper) for lower, upper in pairwise(ends)]


def made_apart(parent: str, name: str) -> Iterator[str]:
    """Yield the statements that make an empty table, which can then be attached within some milliseconds."""
    yield f"CREATE TABLE {quoted(name)} (LIKE {parent} {_LIKE})"


def attached(parent: str, name: str, bounds: Bounds) -> Iterator[str]:
    """Yield the statements that attach a table as a partition, and let nobody empty it by TRUNCATE."""
    yield f"ALTER TABLE {parent} ATTACH PARTITION {quoted(name)} {bounds.sql}"
    yield (
        f"CREATE OR REPLACE TRIGGER apportion_truncate BEFORE TRUNCATE ON {quoted(name)} "
        "FOR EACH STATEMENT EXECUTE FUNCTION apportion.keep()"
    )


def check_partitioned(connection: Connection, tables: Sequence[Table], *, is_shard: bool) -> None:
    """Refuse timed tables that are there without partitions. Absent tables are no difference.

    A database that is not a shard yet must have none of them, because `init` makes them.
    """
    for table in tables:
        timed = timed_of(table)
        if timed is None:
            continue
        place = connection.dialect.identifier_preparer.format_table(table).replace("%%", "%")
        found = connection.exec_driver_sql(_KIND, (place,)).first()
        if found is None or (is_shard and _is_fit(found[0], found[1], timed)):
            continue
        has_rows = connection.exec_driver_sql(f"SELECT EXISTS (SELECT FROM {place})".replace("%", "%%")).scalar()
        expected = f"none, or one in partitions of {timed.column} that init made"
        if has_rows:
            raise InvalidInput(f"table {timed.name}", "one with rows", expected, _RECIPE)
        hint = f"Drop it: DROP TABLE {place}. Then init makes it in partitions."
        raise InvalidInput(f"table {timed.name}", "an empty one", expected, hint)


def make_first(connection: Connection, tables: Sequence[Table]) -> None:
    """Make the first partitions of the timed tables that have none."""
    for table in tables:
        timed = timed_of(table)
        if timed is None:
            continue
        place = connection.dialect.identifier_preparer.format_table(table).replace("%%", "%")
        if connection.exec_driver_sql(_HAS_PARTS, (place,)).scalar():
            continue
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        today = connection.exec_driver_sql("SELECT (now() AT TIME ZONE 'UTC')::date").scalar_one()
        for bounds in first_bounds(timed, today):
            name = bounds.name(timed.name)
            for statement in (*made_apart(place, name), *attached(place, name, bounds)):
                connection.exec_driver_sql(statement.replace("%", "%%"))  # drivers read %% as one percent sign


def _is_fit(kind: str, key: str | None, timed: TimedTable) -> bool:
    names = (timed.column, '"' + timed.column.replace('"', '""') + '"')
    return kind == "p" and key in [f"RANGE ({name})" for name in names]
