"""The guard of a database: one statement in the user's transaction. Its row lock keeps the writes of holders in order.

Promises: in committed transactions the tokens of a resource never go back, at any isolation level. The check of a newer
token waits until the transaction of the earlier accepted token has ended. A refusal (`Fenced`) has written nothing and
leaves the transaction usable. Errors of the driver reach the caller unchanged; then the check has allowed no write.
Refuses: autocommit mode, and to make its table silently. It needs PostgreSQL 9.5 or SQLite 3.35, or a newer release.
Cost: one round trip and one written row; a second round trip when it refuses. docs/groups/guards.md has examples.
Source: https://www.postgresql.org/docs/current/transaction-iso.html, https://www.sqlite.org/lang_upsert.html
"""

import re
from typing import Final

from apportion.errors import BadSnapshot, Fenced, InvalidInput
from apportion.guards.connections import (
    Executes,
    is_sqlalchemy_async,
    percent,
    require_known,
    require_transaction,
    require_transaction_async,
    run,
    run_async,
)
from apportion.guards.noted import note
from apportion.guards.rule import position
from apportion.model.epoch import FencingToken

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")

# All positions have texts of the same length, with digits at the same places. So every collation sorts them alike.
_DDL = """CREATE TABLE IF NOT EXISTS {table} (
    resource TEXT PRIMARY KEY NOT NULL,
    position TEXT NOT NULL,
    holder TEXT NOT NULL
)"""
_CHECK = """INSERT INTO {table} AS kept (resource, position, holder) VALUES (:resource, :position, :holder)
ON CONFLICT (resource) DO UPDATE SET position = excluded.position, holder = excluded.holder
WHERE kept.position < excluded.position OR (kept.position = excluded.position AND kept.holder = excluded.holder)
RETURNING position"""
_KEPT = "SELECT position, holder FROM {table} WHERE resource = :resource"


class SqlGuard:
    """Checks tokens in a table of SQLite or PostgreSQL, on connections of sqlite3, psycopg or SQLAlchemy."""

    def __init__(self, table: str = "apportion_fences") -> None:
        """Name the table, with its schema if it has one: letters, digits, underscores."""
        if not isinstance(table, str) or not _NAME.fullmatch(table):
            expected = "letters, digits and underscores, at most 63, with or without a schema before a dot"
            raise InvalidInput("table", table, expected, "Pick a plain name. The guard quotes it, so its case counts.")
        self.table = table
        self._quoted = ".".join(f'"{part}"' for part in table.split("."))
        self._check, self._kept = _CHECK.format(table=self._quoted), _KEPT.format(table=self._quoted)

    @property
    def ddl(self) -> str:
        """The statement that makes the table, for a migration."""
        return _DDL.format(table=self._quoted)

    def create(self, connection: Executes) -> None:
        """Make the table where it is absent, in the caller's transaction if there is one."""
        require_known(connection)
        run(connection, self.ddl, {})

    def statement(self, token: FencingToken) -> tuple[str, dict[str, str]]:
        """Return the statement of `check` with its values, for psycopg, so that it can be sent with other statements.

        An answer without a row is a refusal: call `check` then, which raises it.
        """
        note(token)
        return percent(self._check), _values(token)

    def check(self, connection: Executes, token: FencingToken) -> None:
        """Let the transaction write under `token`, or raise `Fenced`; check first, then write, then commit."""
        note(token)
        require_transaction(connection)
        with _Advised(self.table):
            rows = run(connection, self._check, _values(token)).fetchall()
        if not rows:
            raise _fenced(token, run(connection, self._kept, {"resource": token.resource}).fetchall())

    async def check_async(self, connection: Executes, token: FencingToken) -> None:
        """Do the same on an `AsyncConnection` of psycopg or SQLAlchemy."""
        note(token)
        if is_sqlalchemy_async(connection):
            await connection.run_sync(self.check, token)
            return
        require_transaction_async(connection)
        with _Advised(self.table):
            rows = await run_async(connection, self._check, _values(token))
        if not rows:
            raise _fenced(token, await run_async(connection, self._kept, {"resource": token.resource}))


class _Advised:
    """A block that adds the next step to the driver's error for an absent table."""

    def __init__(self, table: str) -> None:
        self._name = table.rpartition(".")[2]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> None:
        said = str(error)
        if error and self._name in said and ("no such table" in said or "does not exist" in said):
            error.add_note("Nothing was written. Make the table once: call create(connection), or run ddl.")


def _values(token: FencingToken) -> dict[str, str]:
    return {"resource": token.resource, "position": position(token), "holder": token.holder}


def _fenced(token: FencingToken, rows: list[tuple[str | bytes, str | bytes]]) -> Fenced:
    """Return the error with the newer token, from the kept row, which the refused transaction can see."""
    try:
        [(place, holder)] = [tuple(_text(value) for value in row) for row in rows]
        incarnation, epoch = map(int, place.split(":"))
    except ValueError as error:
        hint = "Nothing was written. Restore the row from a copy; while it is absent, no old holder is refused."
        field = f"row of {token.resource} in the table of tokens"
        raise BadSnapshot(field, rows[0][0] if rows else None, "the position of a token", hint) from error
    newer = FencingToken(resource=token.resource, holder=holder, incarnation=incarnation, epoch=epoch)
    return Fenced(token.resource, token, newer)


def _text(value: str | bytes) -> str:
    """Read text, also from a connection with `text_factory = bytes`."""
    return value.decode() if isinstance(value, bytes) else value
