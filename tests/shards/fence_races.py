"""Races of a writer and a mover on one slot of PostgreSQL, each in an order that the test forces by locks.

A race returns the SQLSTATE by which the writer was refused, or "accepted": its write would be lost by the move.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep
from uuid import uuid4

import psycopg
from psycopg import IsolationLevel

from apportion.shards.postgres.functions import LOCK_CLASS
from apportion.shards.slot_rows import SlotRow, accepts
from apportion.tables.layout import Version
from tests.stores.rigs.postgres import USER

SLOT, LIFE = 5, 1
LEVELS = (IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE)
_PATIENCE_SECONDS = 20.0


def with_fence(writer):
    """Enter as a session does, and write."""
    writer.execute("SELECT apportion.fence(ARRAY[%s::smallint], %s, 7)", (SLOT, LIFE))
    bare(writer)


def bare(writer):
    """Write as psql does."""
    writer.execute("INSERT INTO place (id, country, visits, slot) VALUES (%s, 'FR', 1, %s)", (uuid4(), SLOT))


def fence_slot(mover, state="fenced", slot=SLOT):
    """Fence a slot as a mover does, without the end of its transaction."""
    mover.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, slot))
    mover.execute("UPDATE apportion.slot SET state = %s WHERE slot = %s", (state, slot))


def late_writer(files, level, write):
    """The writer comes while the mover's transaction is open, which then commits."""
    with _pair(files, level) as (writer, mover), ThreadPoolExecutor(1) as pool:
        fence_slot(mover)
        answer = pool.submit(_outcome, writer, write)
        waits(files, writer, answer)
        mover.commit()
        return answer.result(_PATIENCE_SECONDS)


def old_snapshot(files, level, write):
    """The writer has read before the mover fences and commits, and writes afterwards."""
    with _pair(files, level) as (writer, mover):
        writer.execute("SELECT count(*) FROM place")
        fence_slot(mover)
        mover.commit()
        return _outcome(writer, write)


def waits(files, connection, answer):
    """Wait until a connection waits for a lock, or has its answer."""
    ends = monotonic() + _PATIENCE_SECONDS
    asked = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
    with files.connect("one", autocommit=True) as watcher:
        while not answer.done() and watcher.execute(asked, (connection.info.backend_pid,)).fetchone() != (True,):
            assert monotonic() < ends
            sleep(0.005)


def disagreements(files):
    """Return the rows and callers for which the shard answers otherwise than the rule of `slot_rows`."""
    found = []
    numbers = (None, 6, 7, 8)
    states = ("owner", "fenced", "moved", "incoming")
    with files.connect("one") as connection:
        for state, number, caller in ((s, n, c) for s in states for n in numbers for c in numbers):
            life = None if number is None else LIFE
            change = "UPDATE apportion.slot SET state = %s, life = %s, number = %s WHERE slot = %s"
            connection.execute(change, (state, life, number, SLOT))
            asked = (SLOT, None if caller is None else LIFE, caller)
            answer = connection.execute("SELECT apportion.accepts(ARRAY[%s::smallint], %s, %s)", asked).fetchone()[0]
            row = SlotRow(state=state, number=_version(number))
            if answer != accepts(row, _version(caller)):
                found.append((state, number, caller))
        connection.rollback()
    return found


def _version(number):
    return None if number is None else Version(incarnation=LIFE, number=number)


@contextmanager
def _pair(files, level):
    files.state("one", SLOT, "owner")
    try:
        with files.connect("one", user=USER) as writer, files.connect("one") as mover:
            writer.isolation_level = level
            yield writer, mover
    finally:
        files.state("one", SLOT, "owner")
        files.sql("one", "DELETE FROM place")


def _outcome(writer, write):
    """Write and commit; return how that ended."""
    try:
        write(writer)
        writer.commit()
    except psycopg.Error as error:
        writer.rollback()
        return error.sqlstate
    return "accepted"
