"""The schema of the PostgreSQL store: its name in statements, its creation and its upgrade.

Promises: a name has only allowed characters, and the driver quotes it. An upgrade happens whole or not at all. Of many
upgrades that begin at the same time, one does the work.
"""

import re
from collections.abc import Callable
from functools import cache

from apportion.errors import InvalidInput
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.driver import Connection, psycopg
from apportion.stores.postgres.migrations import NEWEST, VERSIONS
from apportion.stores.postgres.task_tables import TASK_GRANTS, TASK_TABLES

SCHEMA = "apportion"
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")
_USER_BYTES = 63


class Schema:
    """The schema of a store, by name. The name is also the channel of its hints."""

    def __init__(self, name: str = SCHEMA) -> None:
        if not _IDENTIFIER.fullmatch(name) or name.startswith("pg_"):
            expected = "1 to 63 lower-case letters, digits or '_', beginning with a letter and not with pg_"
            raise InvalidInput("schema", name, expected, "Write for example ?schema=apportion")
        self.name = name
        self.fill: Callable[[str], bytes] = cache(self._filled)

    def _filled(self, statement: str) -> bytes:
        """Put the name into a statement. `fill` keeps the result, so this happens once per statement."""
        return (
            psycopg.sql.SQL(statement)
            .format(
                schema=psycopg.sql.Identifier(self.name),
                channel=psycopg.sql.Literal(self.name),
                version=psycopg.sql.Literal(NEWEST),
            )
            .as_bytes(None)
        )

    def statements(self, *, since: int) -> tuple[str, ...]:
        """Return the statements from a version (0: no schema) to the newest, to be run in one transaction."""
        steps = [statement for version in VERSIONS[since:] for statement in version]
        return tuple(self.fill(step).decode().strip() for step in ([*steps, sql.SET_VERSION] if steps else []))

    def task_statements(self) -> tuple[str, ...]:
        """Return the statements that make the tables of tasks, to be run in one transaction."""
        return tuple(self.fill(statement).decode().strip() for statement in TASK_TABLES)

    def grants(self, user: str) -> tuple[str, ...]:
        """Return the statements that give a user the rights of a member and no more."""
        if not user or len(user.encode(errors="replace")) > _USER_BYTES or "\0" in user or not user.isprintable():
            expected = f"1 to {_USER_BYTES} bytes of printable text"
            raise InvalidInput("user", user, expected, "Name a role of the server.")
        names = {"schema": psycopg.sql.Identifier(self.name), "user": psycopg.sql.Identifier(user)}
        return tuple(psycopg.sql.SQL(grant).format(**names).as_string(None) for grant in (*sql.GRANTS, *TASK_GRANTS))

    async def version(self, connection: Connection) -> int:
        """Return the version of the schema in a database, 0 if there is none."""
        found = await (await connection.execute(self.fill(sql.HAS_SCHEMA))).fetchone()
        if found is None or not found[0]:
            return 0
        version = await (await connection.execute(self.fill(sql.SCHEMA_VERSION))).fetchone()
        return int(str(version[0])) if version else 0

    async def upgrade(self, connection: Connection) -> tuple[int, int]:
        """Bring the schema to the newest version; return the version before and after."""
        async with connection.transaction():
            await connection.execute(self.fill(sql.LOCK_UPGRADE))
            before = await self.version(connection)
            self.require_known(before)
            for statement in self.statements(since=before):
                await connection.execute(statement.encode())
        return before, NEWEST

    def require_known(self, version: int) -> None:
        """Raise `InvalidInput` for the schema of a later release."""
        if version > NEWEST:
            hint = "Update this program: an older release must not write to the schema of a newer one."
            raise InvalidInput("version of the schema", version, f"at most {NEWEST}", hint)
