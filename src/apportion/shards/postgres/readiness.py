"""Readiness: finds the obstacles to a move between two servers, before any part of the move is made.

Promises: each refusal names the shard, what was found there, and the next step. Nothing is written.
Refuses: a role that may not write rows without their triggers, or that may not make the tables of a move. A role that
does not own the tables, or that lacks a right on one of them. A standby, unlogged tables, generated columns `slot`,
tables that inherit from a sharded one, and prepared transactions on either shard. Two databases that encode or sort
texts differently. A target that has rows of the moving slots already.

The free space of a server is not asked: PostgreSQL does not tell it.
"""

# ruff: noqa: S608 - names are quoted, values are bound

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.errors import InvalidInput, StoreDenied
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.mover_transaction import REPLICA
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import rows
from apportion.shards.postgres.tables import ServerTable, require_table_rights
from apportion.stores.postgres.driver import Connection

_DATABASE = """SELECT pg_is_in_recovery(), pg_encoding_to_char(encoding), datlocprovider::text, datcollate, datctype
    FROM pg_database WHERE datname = current_database()"""
_UNLOGGED = "SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
_IS_UNLOGGED = """EXISTS (SELECT FROM pg_trigger t
    WHERE t.tgrelid = c.oid AND t.tgname = 'apportion_insert') AND c.relpersistence = 'u' ORDER BY 1"""

# No trigger of a set can be on such a table, so it counts as a sharded one by its column alone.
_GENERATED = """SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE a.attname = 'slot' AND a.attgenerated <> ''
    AND a.atttypid = 'smallint'::regtype AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1"""

# Rows of a table that inherits are rows of its parent too, but the triggers of the parent do not see them.
_HEIRS = """SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT c.relispartition
    AND EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = i.inhparent AND t.tgname = 'apportion_insert') ORDER BY 1"""
_RIGHTS = Statement(
    """SELECT quote_ident(current_database()), has_database_privilege(current_database(), 'TEMPORARY'),
    has_schema_privilege('apportion', 'CREATE')"""
)
_PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The facts of a database that decide whether rows can move to it or from it.

    - `texts`: the encoding and the collation of the database.
    - `unlogged`, `generated`: the names of unlogged tables, and of tables with a generated column `slot`.
    - `heirs`: the names of tables that inherit from a sharded one.
    - `prepared`: the names of prepared transactions.
    """

    is_standby: bool
    texts: tuple[str, ...]
    unlogged: tuple[str, ...]
    generated: tuple[str, ...]
    heirs: tuple[str, ...]
    prepared: tuple[str, ...]


async def facts_of(connection: Connection) -> ServerFacts:
    """Read the facts of a database."""
    [(is_standby, *texts)] = await rows(connection, _DATABASE)
    unlogged = await rows(connection, f"{_UNLOGGED} WHERE {_IS_UNLOGGED}")
    generated, heirs = await rows(connection, _GENERATED), await rows(connection, _HEIRS)
    prepared = await rows(connection, _PREPARED)
    return ServerFacts(
        is_standby=is_standby,
        texts=tuple(texts),
        unlogged=tuple(name for (name,) in unlogged),
        generated=tuple(name for (name,) in generated),
        heirs=tuple(name for (name,) in heirs),
        prepared=tuple(name for (name,) in prepared),
    )


def require_ready(group: MoveGroup, source: ServerFacts, target: ServerFacts) -> None:
    """Raise `InvalidInput` for the first fact that would stop a move."""
    for shard, facts in ((group.source, source), (group.target, target)):
        _require_usable(shard, facts)
    if source.texts != target.texts:
        hint = f"Make the database of shard {group.target} anew with the encoding and the collation of {group.source}."
        expected = f"{_listed(source.texts)}, as in shard {group.source}"
        raise InvalidInput(f"encoding and collation of shard {group.target}", _listed(target.texts), expected, hint)


def _require_usable(shard: str, facts: ServerFacts) -> None:
    if facts.is_standby:
        hint = "Let the URL of the shard name the primary server."
        raise InvalidInput(f"server of shard {shard}", "a standby", "the primary server", hint)
    if facts.unlogged:
        hint = f"A crash would empty it. Change it: ALTER TABLE {facts.unlogged[0]} SET LOGGED"
        found = f"the unlogged table {facts.unlogged[0]}"
        raise InvalidInput(f"tables of shard {shard}", found, "tables that survive a crash", hint)
    if facts.generated:
        plain = f"Run: ALTER TABLE {facts.generated[0]} ALTER slot DROP EXPRESSION"
        index = "make its unique index TABLE_by_slot over slot and primary key again"
        hint = f"{plain}. Then {index}, and run: apportion shards add URL SET {shard}=URL --models MODULE:Base"
        found = f"the generated column slot of {facts.generated[0]}"
        raise InvalidInput(f"tables of shard {shard}", found, "a plain column slot, which sessions write", hint)
    if facts.heirs:
        hint = f"No trigger would log its rows. Make it a partition, or: ALTER TABLE {facts.heirs[0]} NO INHERIT …"
        found = f"the table {facts.heirs[0]}, which inherits from a sharded one"
        raise InvalidInput(f"tables of shard {shard}", found, "tables that inherit from none, or partitions", hint)
    if facts.prepared:
        hint = "It may hold the locks of moving slots. Let its owner commit it or roll it back."
        found = f"the prepared transaction {facts.prepared[0]}"
        raise InvalidInput(f"transactions of shard {shard}", found, "no prepared transaction", hint)


async def require_rights(connection: Connection, shard: str) -> None:
    """Raise `StoreDenied` unless the role may make all parts of a move.

    Triggers are switched off for this transaction, because the server refuses that to a role that may not.
    """
    _, [(database, may_stage, may_log)] = await script(connection, REPLICA, _RIGHTS)
    if not may_stage:
        hint = f"As an administrator: GRANT TEMPORARY ON DATABASE {database} TO the role of the mover."
        raise StoreDenied(f"shard {shard}", "its role may not make temporary tables", hint)
    if not may_log:
        hint = "As an administrator: GRANT CREATE ON SCHEMA apportion TO the role of the mover."
        raise StoreDenied(f"shard {shard}", "its role may not make tables in the schema apportion", hint)
    await require_table_rights(connection, shard)


async def require_no_rows(connection: Connection, group: MoveGroup, tables: Sequence[ServerTable]) -> None:
    """Raise `InvalidInput` if the target has rows of a slot that it neither had before nor is getting."""
    known = "SELECT slot FROM apportion.slot WHERE state IN ('moved', 'incoming')"
    for table in tables:
        found = f"SELECT slot FROM {table.name.replace('%', '%%')} WHERE slot = ANY (%s) AND slot NOT IN ({known})"
        unknown = await rows(connection, f"{found} LIMIT 1", list(group.slots))
        if unknown:
            place = f"table {table.name} of shard {group.target}"
            hint = "No move brought them. Look at them, save the ones that you need, and delete them there."
            raise InvalidInput(place, f"rows of slot {unknown[0][0]}", "no rows of the moving slots", hint)


def _listed(texts: Sequence[str]) -> str:
    encoding, provider, collation, kind = texts
    return f"{encoding}, {collation}, {kind} (provider {provider})"
