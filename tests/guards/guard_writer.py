"""A process that writes under old and new tokens at once with many others, and says how often it was refused.

`echo TARGET | python -m tests.guards.guard_writer sqlite3|psycopg NUMBER WRITES`. What is accepted goes to the table
`log` in the transaction of the check. Where the tokens stand is read before it, and may be old when it begins.
"""

import random
import sqlite3
import sys
from contextlib import closing

import psycopg

from apportion.errors import Fenced
from apportion.guards import SqlGuard
from tests.guards.tokens import token

GUARD = SqlGuard()
RESOURCES = ("a", "b")
REACH = 4
LOG = "CREATE TABLE log (place INTEGER PRIMARY KEY {made}, resource TEXT, epoch INTEGER, holder TEXT)"


def opened(kind, target):
    """Open a connection that makes no transaction but those that a write begins."""
    if kind == "sqlite3":
        return sqlite3.connect(target, timeout=60)
    return psycopg.connect(target)


def prepare(connection, kind):
    """Make the guard's table and the log."""
    GUARD.create(connection)
    made = "AUTOINCREMENT" if kind == "sqlite3" else "GENERATED ALWAYS AS IDENTITY"
    connection.execute(LOG.format(made=made))
    connection.commit()


def log_of(connection):
    """Return what was written, in the order in which it was."""
    return connection.execute("SELECT resource, epoch, holder FROM log ORDER BY place").fetchall()


def write(connection, kind, each):
    """Write one entry under a token."""
    mark = "?" if kind == "sqlite3" else "%s"
    GUARD.check(connection, each)
    values = (each.resource, each.epoch, each.holder)
    connection.execute(f"INSERT INTO log (resource, epoch, holder) VALUES ({mark}, {mark}, {mark})", values)


def main(kind, target, number, writes):
    """Write so many times; print how many were accepted and how many refused."""
    drawn, refused = random.Random(number), 0
    with closing(opened(kind, target)) as connection:
        for _ in range(writes):
            resource = drawn.choice(RESOURCES)
            [(newest,)] = connection.execute("SELECT coalesce(max(epoch), 0) FROM log").fetchall()
            connection.rollback()
            each = token(max(0, newest + drawn.randint(-REACH, 1)), drawn.choice(("ann", "bob")), resource=resource)
            try:
                write(connection, kind, each)
                connection.commit()
            except Fenced:
                connection.rollback()
                refused += 1
    print(writes - refused, refused)


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.readline().rstrip("\n"), int(sys.argv[2]), int(sys.argv[3]))
