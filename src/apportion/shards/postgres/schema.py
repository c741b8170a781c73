"""The schema `apportion` of a shard in PostgreSQL: its tables, and the triggers of the sharded tables.

    shard_meta   one row: the set, this shard, its slots, the hasher and the format; compared at connect
    slot         a row for each slot that this shard owns, gets, or owned before
    fences       the newest token of each mover, as `SqlGuard` keeps it
    move         how far each table of a move has come
    marker       the newest marker of each move with a native channel

A control store may use the same schema, because its tables have other names. Triggers refuse each write of a row in a
slot that this shard does not own, or that the transaction did not fence. They do so for every program. If a session
fenced one slot alone, the condition of a trigger skips the function for rows of that slot.
Source: https://www.postgresql.org/docs/current/sql-createtrigger.html
"""

from collections.abc import Iterator

from apportion.guards.rule import position
from apportion.guards.sql import SqlGuard
from apportion.model.epoch import FencingToken
from apportion.shards.postgres.functions import FUNCTIONS

GUARD = SqlGuard("apportion.fences")
"""The guard of the tokens of movers on a shard."""

_TABLES = (
    "CREATE SCHEMA IF NOT EXISTS apportion",
    """CREATE TABLE IF NOT EXISTS apportion.shard_meta (
    id integer PRIMARY KEY CHECK (id = 1), format integer NOT NULL, set_id text NOT NULL,
    shard text NOT NULL, slots integer NOT NULL, hasher text NOT NULL
)""",
    """CREATE TABLE IF NOT EXISTS apportion.slot (
    slot smallint PRIMARY KEY, state text NOT NULL CHECK (state IN ('owner', 'fenced', 'moved', 'incoming')),
    life bigint, number bigint, move text, former text, CHECK ((life IS NULL) = (number IS NULL))
)""",
    GUARD.ddl,
    """CREATE TABLE IF NOT EXISTS apportion.move (
    move text NOT NULL, relation text NOT NULL, cursor text, PRIMARY KEY (move, relation)
)""",
    "CREATE TABLE IF NOT EXISTS apportion.marker (move text PRIMARY KEY, attempt integer NOT NULL)",
)
_GRANTS = (
    "GRANT USAGE ON SCHEMA apportion TO PUBLIC",
    "GRANT SELECT ON apportion.shard_meta, apportion.slot TO PUBLIC",
    "GRANT EXECUTE ON FUNCTION apportion.accepts, apportion.fence, apportion.read TO PUBLIC",
)
STATEMENTS = (*_TABLES, *FUNCTIONS, *_GRANTS)

# A setting that was never made is NULL, and one of an ended transaction is empty: both are "not this slot".
_OTHER = "({row}.slot::text = current_setting('apportion.slots', true)) IS NOT TRUE"
_CONDITIONS = {
    "INSERT": _OTHER.format(row="NEW"),
    "UPDATE": f"OLD.slot <> NEW.slot OR {_OTHER.format(row='NEW')}",
    "DELETE": _OTHER.format(row="OLD"),
}


def triggers(table: str) -> Iterator[str]:
    """Yield the statements that make the triggers of a sharded table; its name is quoted already."""
    for act, other in _CONDITIONS.items():
        name = f"apportion_{act.lower()}"
        trigger = f"CREATE OR REPLACE TRIGGER {name} BEFORE {act} ON {table} FOR EACH ROW"
        yield f"{trigger} WHEN ({other}) EXECUTE FUNCTION apportion.guard()"
    truncate = f"CREATE OR REPLACE TRIGGER apportion_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT"
    yield f"{truncate} EXECUTE FUNCTION apportion.keep()"


def mover_mark(token: FencingToken) -> str:
    """Return the value of the setting `apportion.mover`, by which a mover's transaction may write to any slot.

    The guard compares it with the token in `fences`, so `GUARD.check` comes first in that transaction.
    """
    return f"{position(token)} {token.holder} {token.resource}"
