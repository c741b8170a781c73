"""Mover transaction: the statements that begin a transaction of a mover, so that no setting of its role changes it.

A role, a database or a pooler may have settings that limit statements, or that change how values become text. A
transaction that writes also shares the table lock, waits for any other lock 20 ms at most, and is durable.

Promises: the settings end with the transaction, because a pooler then lends the connection to an application.
Source: https://www.postgresql.org/docs/current/runtime-config-client.html
"""

from apportion.shards.postgres.script import Statement
from apportion.shards.postgres.table_lock import SHARED
from apportion.shards.postgres.timeline import NUMBER

# These settings decide how values become text, and replace limits that a role may have by default.
_SETTINGS = "; ".join(
    f"SET LOCAL {each}"
    for each in (
        "search_path = pg_catalog, pg_temp",
        "DateStyle = 'ISO, YMD'",
        "IntervalStyle = postgres",
        "TimeZone = 'UTC'",
        "bytea_output = hex",
        "extra_float_digits = 3",
        "standard_conforming_strings = on",
        "array_nulls = on",
        "xmloption = content",
        "lc_monetary = 'C'",
        "quote_all_identifiers = off",
        "row_security = off",
        "statement_timeout = 0",
        "idle_in_transaction_session_timeout = 0",
        "lock_timeout = 0",
    )
)

# The view of all settings would cost five times as much as the rest of the opening.
_NO_LIMIT = """SELECT set_config('transaction_timeout', '0', true)
    WHERE current_setting('server_version_num')::integer >= 170000"""

# After this time, a waiting transaction looks for deadlocks, and asks a vacuum to give way. The default is a second.
_LOOK = "SELECT set_config('deadlock_timeout', '10ms', true) FROM pg_roles WHERE rolname = current_user AND rolsuper"

READ = Statement(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY NOT DEFERRABLE; {_SETTINGS}; {_NO_LIMIT}")
"""The beginning of reads that see one state of the database."""

WRITE = Statement(
    f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {_SETTINGS}; {_NO_LIMIT}; "
    f"SET LOCAL lock_timeout = '20ms'; SET LOCAL synchronous_commit = on; {_LOOK}; {SHARED}"
)
"""The beginning of a durable transaction. `MARK` and the guard of the token follow."""

MARK = f"SELECT set_config('apportion.mover', %s, true), {NUMBER}"
"""Sets the mark of a mover, and returns the number of the timeline: a pooler may have another server by now."""

REPLICA = Statement("SET LOCAL session_replication_role = replica")
"""Switches triggers and foreign keys off until the end of a transaction."""
