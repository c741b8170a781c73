"""The sharded tables of a database, as its catalog tells them: those with the triggers that a set puts on its tables.

Promises: parents come before their children. Columns that the database computes are left out: nobody can write them.
Refuses: a table without a primary key. It also refuses a table with the index of a sharded table and without triggers.
Changes of such a table would not be logged, and its rows would stay behind.
"""

# ruff: noqa: S608 - every statement is ours

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from apportion.errors import InvalidInput, StoreDenied
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import OWN_TABLES, rows
from apportion.stores.postgres.driver import Connection

_FOUND = """SELECT c.oid::bigint, format('%%I.%%I', n.nspname, c.relname) FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE t.tgname = 'apportion_insert' AND NOT t.tgisinternal AND NOT c.relispartition ORDER BY 2"""
_INDEXED = """SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class made ON made.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE made.relname = c.relname || '_by_slot' AND NOT c.relispartition"""
_SHARDED = """ARRAY(SELECT t.tgrelid FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE t.tgname = 'apportion_insert' AND NOT t.tgisinternal AND NOT c.relispartition)"""
_COLUMNS = f"""SELECT attrelid::bigint, format('%%I', attname), format_type(atttypid, atttypmod), attname,
    attgenerated <> '' FROM pg_attribute
    WHERE attrelid = ANY ({_SHARDED}) AND attnum > 0 AND NOT attisdropped ORDER BY attname"""
_UNIQUES = f"""SELECT i.indrelid::bigint, i.indisprimary, array_agg(a.attname::text ORDER BY k.place) FROM pg_index i
    CROSS JOIN unnest(i.indkey) WITH ORDINALITY k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = ANY ({_SHARDED}) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
    AND k.place <= i.indnkeyatts GROUP BY i.indexrelid, i.indrelid, i.indisprimary"""

# The parts of each unique index and exclusion, each with the operator that finds two rows in conflict. The operator may
# lie in a schema that no search path of ours has.
_RIVALS = f"""SELECT i.indrelid::bigint, array_agg(pg_get_indexdef(i.indexrelid, n, true) ORDER BY n),
    array_agg(format('OPERATOR(%%I.%%s)', s.nspname, o.oprname) ORDER BY n), pg_get_expr(i.indpred, i.indrelid),
    coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
    FROM pg_index i LEFT JOIN pg_constraint x ON x.conindid = i.indexrelid AND x.contype = 'x'
    CROSS JOIN generate_series(1, i.indnkeyatts) n JOIN pg_opclass c ON c.oid = i.indclass[n - 1]
    LEFT JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amopstrategy = 3
    AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype
    JOIN pg_operator o ON o.oid = coalesce(x.conexclop[n], a.amopopr) JOIN pg_namespace s ON s.oid = o.oprnamespace
    WHERE i.indrelid = ANY ({_SHARDED}) AND (i.indisunique OR x.oid IS NOT NULL)
    GROUP BY i.indexrelid, i.indrelid, i.indpred, 5 ORDER BY 1, 2"""
_PARENTS = f"""SELECT conrelid::bigint, confrelid::bigint FROM pg_constraint
    WHERE contype = 'f' AND conrelid = ANY ({_SHARDED})"""

NAMES = Statement(_FOUND)
"""The statement that asks for the id and the name of each sharded table."""

TABLES = (NAMES, *map(Statement, (_COLUMNS, _UNIQUES, _RIVALS, _PARENTS)))
"""The statements that ask for all that is known of the sharded tables."""

_OUTSIDE = """SELECT format('%%I.%%I', n.nspname, c.relname), f.confrelid::regclass::text FROM pg_constraint f
    JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE f.contype = 'f' AND f.conparentid = 0 AND f.confrelid = ANY (%s::oid[])
    AND NOT f.conrelid = ANY (%s::oid[]) ORDER BY 1, 2"""
_OF_OTHERS = """SELECT relname FROM pg_class WHERE oid = ANY (%s::oid[]) AND NOT pg_has_role(relowner, 'USAGE')"""
_LACKING = """SELECT format('%%I.%%I', n.nspname, c.relname), string_agg(wanted, ', ' ORDER BY wanted)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN unnest(ARRAY['DELETE', 'INSERT', 'SELECT', 'TRIGGER', 'UPDATE']) wanted
    WHERE (c.oid = ANY (%s::oid[]) OR wanted <> 'TRIGGER' AND n.nspname = 'apportion'
    AND c.relname IN ('slot', 'fences', 'move', 'marker')) AND NOT has_table_privilege(c.oid, wanted)
    GROUP BY 1 ORDER BY 1 LIMIT 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivalry:
    """A rule by which two rows cannot both be in a table: that of a unique index, or of an exclusion.

    `parts` has pairs of an expression and an operator. The rule holds among rows that fulfil `condition`, if there is
    one.
    """

    parts: tuple[tuple[str, str], ...]
    condition: str | None
    has_equal_nulls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """One sharded table. All names are quoted, except for those in `key_names`.

    `columns` and `key_forms` are pairs of a name and a type. `uniques` are the other lists of columns with unique
    values. `rivalries` are all rules of this shard's table. `origin` is the query of an isolated key's rows.
    """

    name: str
    key: tuple[str, ...]
    key_names: tuple[str, ...]
    key_forms: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    uniques: frozenset[tuple[str, ...]]
    rivalries: tuple[Rivalry, ...] = field(compare=False)
    origin: str = field(default="", compare=False)

    @property
    def source(self) -> str:
        """The table, or the query of the moving rows, on the source. An alias has to follow it."""
        return self.origin or self.name

    def listed(self, alias: str = "") -> str:
        """Return the list of columns for SQL."""
        return columns((name for name, _ in self.columns), alias)


def columns(names: Iterable[str], alias: str = "") -> str:
    """Return a list of quoted columns for SQL, each with an alias of its table if there is one."""
    return ", ".join(f"{alias}.{name}" if alias else name for name in names)


async def tables_of(connection: Connection) -> tuple[ServerTable, ...]:
    """Return the sharded tables, parents before their children. Cost: one wait."""
    return tables_in(await script(connection, *TABLES))


def tables_in(answers: Sequence[Sequence[Any]]) -> tuple[ServerTable, ...]:
    """Return the sharded tables, parents before their children, from the answers to `TABLES`."""
    listed, found, uniques, rivals, parents = answers
    named = dict(listed)
    made = {
        table: _table(
            name,
            [tuple(each) for owner, *each in found if owner == table],
            [(is_key, tuple(raw)) for owner, is_key, raw in uniques if owner == table],
            tuple(_rivalry(*each) for owner, *each in rivals if owner == table),
        )
        for table, name in named.items()
    }
    graph: dict[int, set[int]] = {table: set() for table in made}
    for child, parent in parents:
        if child in made and parent in made and parent != child:
            graph[child].add(parent)
    try:
        return tuple(made[table] for table in TopologicalSorter(graph).static_order())
    except CycleError:
        return tuple(made.values())  # no foreign key acts on the rows of a mover, so any order is right


async def require_movable(connection: Connection, shard: str) -> None:
    """Raise unless a mover can log the changes of all sharded tables, and delete their rows.

    `InvalidInput` for a table that has the index of a sharded table and no triggers. `InvalidInput` also for a table
    outside of the set with a foreign key to a sharded table: it would name rows that have moved away. Errors are also
    those of `require_table_rights`.
    """
    found = dict(await rows(connection, _FOUND))
    for name in sorted({name for (name,) in await rows(connection, _INDEXED)} - {*found.values()}):
        hint = f"Make them, then go on: apportion shards add URL SET {shard}=URL --models MODULE:Base"
        raise InvalidInput(f"triggers of table {name} in shard {shard}", "absent", "those of a sharded table", hint)
    await require_table_rights(connection, shard)
    for name, parent in await rows(connection, _OUTSIDE, [*found], [*found]):
        hint = "Declare it as shards.Sharded with this parent, or drop the foreign key."
        problem = f"a foreign key to {parent}"
        raise InvalidInput(f"table {name} in shard {shard}", problem, "none from outside of the set", hint)


async def require_table_rights(connection: Connection, shard: str) -> None:
    """Raise `StoreDenied` unless the role owns the sharded tables, and has all rights on them and on those of moves.

    An owner may have revoked rights of its own.
    """
    sharded = [*dict(await rows(connection, _FOUND))]
    for (name,) in await rows(connection, _OF_OTHERS, sharded):
        raise StoreDenied(f"shard {shard}", f"table {name} belongs to another role", OWN_TABLES)
    for name, lacking in await rows(connection, _LACKING, sharded):
        hint = f"As an administrator: GRANT {lacking} ON {name} TO the role of the mover."
        raise StoreDenied(f"shard {shard}", f"its role lacks {lacking} on table {name}", hint)


def _table(
    name: str,
    found: list[tuple[Any, ...]],
    uniques: list[tuple[bool, tuple[str, ...]]],
    rivalries: tuple[Rivalry, ...],
) -> ServerTable:
    key = next((raw for is_key, raw in uniques if is_key), None)
    if key is None:
        raise InvalidInput(f"table {name}", "no primary key", "a primary key", "Give it a key that never changes.")
    forms = {raw: (column, form) for column, form, raw, _ in found}
    others = frozenset(
        tuple(forms[each][0] for each in raw) for is_key, raw in uniques if not is_key and not set(key) <= set(raw)
    )
    return ServerTable(
        name=name,
        key=tuple(forms[each][0] for each in key),
        key_names=key,
        key_forms=tuple(forms[each] for each in key),
        columns=tuple((column, form) for column, form, _, is_computed in found if not is_computed),
        uniques=others,
        rivalries=rivalries,
    )


def _rivalry(parts: list[str], operators: list[str], condition: str | None, has_equal_nulls: bool) -> Rivalry:
    return Rivalry(
        parts=tuple(zip(parts, operators, strict=True)), condition=condition, has_equal_nulls=has_equal_nulls
    )
