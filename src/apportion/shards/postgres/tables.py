"""The sharded tables of a database, as its catalog tells them: those with the triggers that a set puts on its tables.

Promises: parents come before their children. Columns that the database computes are left out: nobody can write them.
Refuses: a table without a primary key, and two shards whose tables differ. A table with the index of a sharded one and
without triggers: nothing would log its changes, and its rows would stay behind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from apportion.errors import InvalidInput, SchemaDiffers
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.server import rows
from apportion.stores.postgres.driver import Connection

_FOUND = """SELECT c.oid::bigint, format('%%I.%%I', n.nspname, c.relname) FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE t.tgname = 'apportion_insert' AND NOT t.tgisinternal AND NOT c.relispartition ORDER BY 2"""
_INDEXED = """SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class made ON made.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE made.relname = c.relname || '_by_slot' AND NOT c.relispartition"""
_COLUMNS = """SELECT attrelid::bigint, format('%%I', attname), format_type(atttypid, atttypmod), attname
    FROM pg_attribute WHERE attrelid = ANY (%s::oid[])
    AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attname"""
_UNIQUES = """SELECT i.indrelid::bigint, i.indisprimary, array_agg(a.attname::text ORDER BY k.place) FROM pg_index i
    CROSS JOIN unnest(i.indkey) WITH ORDINALITY k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indrelid = ANY (%s::oid[]) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
    AND k.place <= i.indnkeyatts GROUP BY i.indexrelid, i.indrelid, i.indisprimary"""
_PARENTS = """SELECT conrelid::bigint, confrelid::bigint FROM pg_constraint
    WHERE contype = 'f' AND conrelid = ANY (%s::oid[])"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """One sharded table. All names are quoted already, those of `key_names` are not.

    `columns` has a name and a type each; `uniques` are the other lists of columns that no two rows share.
    """

    name: str
    key: tuple[str, ...]
    key_names: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    uniques: frozenset[tuple[str, ...]]

    def listed(self, alias: str = "") -> str:
        """Return the list of columns for SQL."""
        return columns((name for name, _ in self.columns), alias)


def columns(names: Iterable[str], alias: str = "") -> str:
    """Return a list of quoted columns for SQL, each with an alias of its table if there is one."""
    return ", ".join(f"{alias}.{name}" if alias else name for name in names)


async def tables_of(connection: Connection) -> tuple[ServerTable, ...]:
    """Return the sharded tables, parents before their children."""
    named = dict(await rows(connection, _FOUND))
    ids = list(named)
    found = await rows(connection, _COLUMNS, ids)
    quotes = {(table, raw): name for table, name, _, raw in found}
    uniques = await rows(connection, _UNIQUES, ids)
    made = {
        table: _table(
            name,
            tuple((column, form) for owner, column, form, _ in found if owner == table),
            [(is_key, tuple(raw)) for owner, is_key, raw in uniques if owner == table],
            {raw: column for (owner, raw), column in quotes.items() if owner == table},
        )
        for table, name in named.items()
    }
    graph: dict[int, set[int]] = {table: set() for table in made}
    for child, parent in await rows(connection, _PARENTS, ids):
        if parent in made and parent != child:
            graph[child].add(parent)
    try:
        return tuple(made[table] for table in TopologicalSorter(graph).static_order())
    except CycleError:
        return tuple(made.values())  # no foreign key acts on the rows of a mover, so any order is right


async def require_triggers(connection: Connection, shard: str) -> None:
    """Raise `InvalidInput` for a table that has the index of a sharded one, and no triggers."""
    named = {name for _, name in await rows(connection, _FOUND)}
    for name in sorted({name for (name,) in await rows(connection, _INDEXED)} - named):
        hint = f"Make them, then go on: apportion shards add URL SET {shard}=URL --models MODULE:Base"
        raise InvalidInput(f"triggers of table {name} in shard {shard}", "absent", "those of a sharded table", hint)


def _table(
    name: str,
    found: tuple[tuple[str, str], ...],
    uniques: list[tuple[bool, tuple[str, ...]]],
    quotes: Mapping[str, str],
) -> ServerTable:
    key = next((raw for is_key, raw in uniques if is_key), None)
    if key is None:
        raise InvalidInput(f"table {name}", "no primary key", "a primary key", "Give each row a key that stays.")
    others = frozenset(
        tuple(quotes[each] for each in raw) for is_key, raw in uniques if not is_key and not set(key) <= set(raw)
    )
    quoted = tuple(quotes[each] for each in key)
    return ServerTable(name=name, key=quoted, key_names=key, columns=found, uniques=others)


def require_equal(group: MoveGroup, source: tuple[ServerTable, ...], target: tuple[ServerTable, ...]) -> None:
    """Raise `SchemaDiffers`, with the names of the tables, unless both shards have the same."""
    here, there = ({each.name: each for each in tables} for tables in (source, target))
    found = [f"table {name} is not the same" for name in sorted(here | there) if here.get(name) != there.get(name)]
    if found:
        raise SchemaDiffers(f"shard {group.source}", f"shard {group.target}", found)
