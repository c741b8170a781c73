"""The log of keys of rows that writers change in moving slots, kept by triggers in the writer's transaction.

Each move has a table of its own, and triggers with a function on each sharded table. The condition of the trigger lists
the slots. A writer could not see them in a table: its snapshot may be older than the capture. CREATE TRIGGER waits for
the writers of its table, so every later change is logged.
Source: https://www.postgresql.org/docs/current/sql-createtrigger.html
"""

# ruff: noqa: S608 - names are quoted, values are bound

from collections.abc import Sequence

from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import rows
from apportion.shards.postgres.tables import ServerTable
from apportion.stores.postgres.driver import Connection

# Only the columns of the key become JSON, because a value of another column may be too large or have no JSON form.
# Every session writes the same text for the same key. Each table has a function of its own, which keeps its plans.
_BODY = """DECLARE before text; after jsonb;
BEGIN
  IF TG_OP <> 'INSERT' THEN
    after := jsonb_build_object({before}); before := after::text;
    INSERT INTO {log} (name, key) VALUES ({name}, after);
  END IF;
  IF TG_OP <> 'DELETE' THEN
    after := jsonb_build_object({after});
    IF after::text IS DISTINCT FROM before THEN INSERT INTO {log} (name, key) VALUES ({name}, after); END IF;
  END IF;
  RETURN NULL;
END"""
_SAFE = """RETURNS trigger LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog
SET extra_float_digits = 3 SET bytea_output = hex SET DateStyle = 'ISO, YMD' SET IntervalStyle = postgres
SET TimeZone = 'UTC'"""
_FUNCTIONS = """SELECT format('apportion.%%I()', proname) FROM pg_proc WHERE pronamespace = 'apportion'::regnamespace
    AND starts_with(proname, %s) AND substr(proname, length(%s) + 1) ~ '^[0-9]+$'"""
_ID = "SELECT %s::regclass::oid::bigint"

_TRIGGERS = """SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE t.tgenabled <> 'D' AND t.tgparentid = 0 AND t.tgname = ANY (%s) GROUP BY 1 HAVING count(*) = 3"""
_HAS = "SELECT to_regclass(format('apportion.%%I', %s::text)) IS NOT NULL"


def log_name(move: str) -> str:
    """Return the name of the log of a move. The names of its triggers contain it."""
    return f"log_{move}"


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _names(move: str) -> dict[str, str]:
    return {act: f"apportion_{log_name(move)}_{act.lower()}" for act in ("INSERT", "UPDATE", "DELETE")}


async def begin(connection: Connection, group: MoveGroup, tables: Sequence[ServerTable]) -> None:
    """Log the changes of a group from now on, in the open transaction. An existing log stays, with new triggers."""
    log, slots = log_name(group.move), f"ANY ('{{{','.join(map(str, group.slots))}}}'::smallint[])"
    made = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, key jsonb NOT NULL"
    await rows(connection, f"CREATE TABLE IF NOT EXISTS apportion.{quoted(log)} ({made})".replace("%", "%%"))
    conditions = {"INSERT": ["NEW"], "UPDATE": ["OLD", "NEW"], "DELETE": ["OLD"]}
    for table in tables:
        [(number,)] = await rows(connection, _ID, table.name)
        function = f"apportion.{quoted(f'{log}_{number}')}"
        for statement in functions(function, f"apportion.{quoted(log)}", table):
            await rows(connection, statement.replace("%", "%%"))
        for act, name in _names(group.move).items():
            when = " OR ".join(f"{row}.slot = {slots}" for row in conditions[act])
            trigger = f"CREATE OR REPLACE TRIGGER {quoted(name)} AFTER {act} ON {table.name} FOR EACH ROW WHEN ({when})"
            await rows(connection, f"{trigger} EXECUTE FUNCTION {function}()".replace("%", "%%"))


def functions(function: str, log: str, table: ServerTable) -> tuple[str, ...]:
    """Return the statements that make the function which logs the keys of a table; the names are quoted already.

    No other role may use the function. Such a role could add a cast to JSON, and the cast would run with our rights.
    """
    before, after = (
        ", ".join(f"{_text(raw)}, {row}.{name}" for name, raw in zip(table.key, table.key_names, strict=True))
        for row in ("OLD", "NEW")
    )
    body = _BODY.format(before=before, after=after, log=log, name=_text(table.name))
    made = f"CREATE OR REPLACE FUNCTION {function}() {_SAFE} AS {_text(body)}"
    return made, f"REVOKE ALL ON FUNCTION {function}() FROM PUBLIC"


async def silence(connection: Connection, move: str) -> None:
    """Make the triggers of a move log nothing from now on. No session waits for this, and it waits for no session."""
    start = f"{log_name(move)}_"
    for (function,) in await rows(connection, _FUNCTIONS, start, start):
        made = f"CREATE OR REPLACE FUNCTION {function} {_SAFE} AS 'BEGIN RETURN NULL; END'"
        await rows(connection, made.replace("%", "%%"))


async def end(connection: Connection, move: str) -> None:
    """Stop the log of a move, and delete it, in one call: writers wait from the first dropped trigger to the end."""
    names, start = sorted(await captured(connection, move, least=1)), f"{log_name(move)}_"
    gone = [f"DROP TRIGGER IF EXISTS {quoted(each)} ON {name}" for name in names for each in _names(move).values()]
    gone += [f"DROP FUNCTION {function}" for (function,) in await rows(connection, _FUNCTIONS, start, start)]
    gone.append(f"DROP TABLE IF EXISTS apportion.{quoted(log_name(move))}")
    await rows(connection, "; ".join(gone).replace("%", "%%"))


async def captured(connection: Connection, move: str, *, least: int = 3) -> set[str]:
    """Return the tables that have at least `least` of the three triggers of a move."""
    found = triggers_of(move).text.replace("= 3", f">= {least}")
    if least == 1:
        found = found.replace("t.tgenabled <> 'D' AND ", "")
    return {name for (name,) in await rows(connection, found, *triggers_of(move).values)}


def triggers_of(move: str) -> Statement:
    """Return the statement that asks for the tables with all three triggers of a move."""
    return Statement(_TRIGGERS, (list(_names(move).values()),))


def length_of(move: str) -> Statement:
    """Return the statement that counts the entries of the log."""
    return Statement(f"SELECT count(*) FROM {place(move)}".replace("%", "%%"))


def taken(move: str, most: int) -> Statement:
    """Return the statement that deletes the oldest entries of the log, and returns the table and the key of each."""
    log = place(move)
    oldest = f"SELECT id FROM {log} ORDER BY id LIMIT {most}"
    return Statement(f"DELETE FROM {log} WHERE id IN ({oldest}) RETURNING name, key::text".replace("%", "%%"))


def place(move: str) -> str:
    """Return the quoted name of the log, with its schema."""
    return f"apportion.{quoted(log_name(move))}"


async def has_log(connection: Connection, move: str) -> bool:
    """Whether the table of the log is there."""
    [[(found,)]] = await script(connection, presence_of(move))
    return bool(found)


def presence_of(move: str) -> Statement:
    """Return the statement that asks whether the table of the log is there."""
    return Statement(_HAS, (log_name(move),))
