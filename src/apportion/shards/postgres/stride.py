"""Stride: sequences of several shards give out no number twice. Each counts by 64, and each shard has a residue.

A row keeps its number when it moves to another shard, so the numbers of all shards have to differ. A sequence that
gets a stride begins anew above every number that any shard gave out before.

Promises: a stride that was made is left as it is, so a call that was cut off is finished by the same call again.
Programs go on meanwhile: each sequence is locked only while it changes.
Refuses: a shard that has another residue; more than 64 shards; a number that the type of the column cannot hold.
Bound: 33 million numbers for each shard where the column is an `integer`; take `bigint` for more.
Source: https://www.postgresql.org/docs/current/sql-altersequence.html
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Table

from apportion.errors import InvalidInput

STRIDE = 64

# The sequences that a column owns (serial, identity), and those that its default names.
_SEQUENCES = """SELECT DISTINCT a.attname, format('%%I.%%I', n.nspname, s.relname), q.seqincrement, q.seqmax
FROM pg_depend d
LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
JOIN pg_class s ON s.relkind = 'S' AND s.oid = CASE WHEN f.oid IS NULL THEN d.objid ELSE d.refobjid END
JOIN pg_namespace n ON n.oid = s.relnamespace
JOIN pg_sequence q ON q.seqrelid = s.oid
JOIN pg_attribute a ON a.attrelid = %s::regclass
    AND a.attrelid = coalesce(f.adrelid, d.refobjid) AND a.attnum = coalesce(f.adnum, d.refobjsubid)
WHERE d.refclassid = 'pg_class'::regclass AND (f.oid IS NOT NULL OR d.classid = 'pg_class'::regclass)
ORDER BY 1, 2"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenKey:
    """A column with numbers that a sequence gives out.

    - `last`: the highest number that was given out, or that a row has.
    - `residue`: the residue of all numbers from now on, None if they have no stride.
    """

    table: str
    column: str
    sequence: str
    last: int
    residue: int | None
    most: int

    def after(self, floor: int, residue: int) -> int:
        """Return the first number above a floor that has a residue.

        >>> key = GivenKey(table="place", column="id", sequence="s", last=70, residue=None, most=2**31 - 1)
        >>> key.after(70, 5), key.after(69, 6), key.after(0, 0)
        (133, 70, 64)
        """
        found = floor + 1 + (residue - floor - 1) % STRIDE
        if found > self.most:
            hint = "Change the column and its sequence to bigint first."
            raise InvalidInput(f"number of {self.table}.{self.column}", found, f"at most {self.most}", hint)
        return found


def stride_shards(engines: Mapping[str, Engine], tables: Sequence[Table]) -> tuple[str, ...]:
    """Give the sequences of some tables their stride on all shards of a set; return the shards that changed.

    A shard with a stride keeps its residue; others get the lowest ones that are free. The shard with the highest
    numbers comes first, so those that follow begin above all numbers that it gave out without a stride.
    """
    known = {shard: _keys(engine, tables) for shard, engine in engines.items()}
    residues = {shard: each for shard, keys in known.items() if (each := _residue(keys)) is not None}
    highest = {shard: max((key.last for key in keys), default=0) for shard, keys in known.items()}
    changed = []
    for shard in sorted(engines, key=lambda each: (-highest[each], each)):
        above = floors(key for engine in engines.values() for key in _keys(engine, tables))
        residue = residues.setdefault(shard, free_residue(residues.values()))
        with engines[shard].begin() as connection:
            if set_stride(connection, tables, residue, above):
                changed.append(shard)
    return tuple(changed)


def given_keys(connection: Connection, tables: Sequence[Table]) -> tuple[GivenKey, ...]:
    """Return the columns of some tables with numbers that sequences of a database give out."""
    named = connection.dialect.identifier_preparer.format_table
    return tuple(key for table in tables for key in _of_table(connection, table, named(table)))


def floors(keys: Iterable[GivenKey]) -> dict[tuple[str, str], int]:
    """Return the highest number of each table and column, over the keys of all shards."""
    found: dict[tuple[str, str], int] = {}
    for key in keys:
        place = (key.table, key.column)
        found[place] = max(key.last, found.get(place, 0))
    return found


def free_residue(taken: Iterable[int]) -> int:
    """Return the lowest residue that no shard has; `InvalidInput` if all 64 have one.

    >>> free_residue([0, 1, 3])
    2
    """
    used = {*taken}
    for residue in range(STRIDE):
        if residue not in used:
            return residue
    hint = "Take UUIDs as keys, which need no stride."
    raise InvalidInput("shards with numbers of sequences", len(used) + 1, f"at most {STRIDE}", hint)


def set_stride(
    connection: Connection, tables: Sequence[Table], residue: int, above: Mapping[tuple[str, str], int]
) -> tuple[str, ...]:
    """Let the sequences of some tables count by 64 with a residue, in the caller's transaction; return their names.

    `above` are the floors of all shards. A sequence with the stride and the residue stays as it is.
    """
    changed = []
    for key in given_keys(connection, tables):
        if key.residue is not None and key.residue != residue:
            hint = "All sequences of a shard share one residue. Compare the sequences of this shard."
            raise InvalidInput(f"residue of {key.sequence}", key.residue, f"{residue}", hint)
        if key.residue is None:
            # ALTER SEQUENCE blocks nextval until the transaction ends. So the last number is read after this statement.
            connection.exec_driver_sql(f"ALTER SEQUENCE {_escaped(key.sequence)} INCREMENT BY {STRIDE}")
            [now] = [each for each in given_keys(connection, tables) if each.sequence == key.sequence]
            first = now.after(max(now.last, above.get((key.table, key.column), 0)), residue)
            connection.exec_driver_sql(f"ALTER SEQUENCE {_escaped(key.sequence)} RESTART WITH {first}")
            changed.append(key.sequence)
    return tuple(changed)


def _keys(engine: Engine, tables: Sequence[Table]) -> tuple[GivenKey, ...]:
    with engine.connect() as connection:
        return given_keys(connection, tables)


def _residue(keys: Iterable[GivenKey]) -> int | None:
    return next((key.residue for key in keys if key.residue is not None), None)


def _of_table(connection: Connection, table: Table, named: str) -> list[GivenKey]:
    rows = connection.exec_driver_sql(_SEQUENCES, (named.replace("%%", "%"),)).all()
    return [_key(connection, (table.fullname, named), tuple(row)) for row in rows]


def _key(connection: Connection, names: tuple[str, str], row: tuple[str, str, int, int]) -> GivenKey:
    (table, named), (column, sequence, step, most) = names, row
    quoted = connection.dialect.identifier_preparer.quote(column)
    highest = f"SELECT max({quoted}) FROM {named}"  # noqa: S608 - ours
    asked = f"SELECT last_value, is_called, ({highest}) FROM {_escaped(sequence)}"  # noqa: S608 - ours
    value, is_called, in_rows = connection.exec_driver_sql(asked).one()
    last = max(value if is_called else value - 1, in_rows or 0)
    residue = value % STRIDE if step == STRIDE else None
    return GivenKey(table=table, column=column, sequence=sequence, last=last, residue=residue, most=most)


def _escaped(name: str) -> str:
    return name.replace("%", "%%")
