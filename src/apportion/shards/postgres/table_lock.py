"""Table lock of a server: a migration holds it alone, and each transaction of a mover shares it.

It is an advisory lock of a transaction, so it works through a pooler that lends connections by the transaction. This
transaction has no snapshot, so it delays no vacuum, and no index that is made concurrently.

Promises: the lock ends with its process, also after a kill.
Source: https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from apportion.errors import StoreUnavailable
from apportion.shards.postgres.functions import LOCK_CLASS

LOCK_WAIT_SECONDS = 10
NUMBER = -1
"""The second number of the lock. Slots have the numbers from 0."""

SHARED = f"SELECT pg_advisory_xact_lock_shared({LOCK_CLASS}, {NUMBER})"
"""The statement by which a mover shares the lock, until the end of its transaction."""

_ALONE = f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, {NUMBER})"
_NO_LIMIT = """SELECT set_config(name, '0', true) FROM pg_settings
    WHERE name IN ('idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout')"""


@contextmanager
def table_lock(engine: Engine, shard: str) -> Iterator[None]:
    """Hold the lock alone until the end of a block. `StoreUnavailable` if others hold it for ten seconds."""
    with engine.connect() as connection:
        connection.execution_options(isolation_level="READ COMMITTED")
        with connection.begin():
            connection.exec_driver_sql(_NO_LIMIT)
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_WAIT_SECONDS}s'")
            try:
                connection.exec_driver_sql(_ALONE)
            except OperationalError as error:
                reason = f"a mover or another migration has worked on it for {LOCK_WAIT_SECONDS} s"
                hint = "Nothing was changed. Run the same call again after its end."
                raise StoreUnavailable(f"shard {shard}", reason, hint) from error
            yield
