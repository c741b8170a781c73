"""A queue in PostgreSQL by hand, over psycopg 3: claims and completions of 100, and inserts.

The table has the columns and the indexes that a claim with a receipt needs, and those by which the tasks of a dead
worker are found. A claim begins after the last one. Completions and inserts wait for the flush; claims do not, and so
have a connection of their own.
"""

import json
from uuid import uuid4

import psycopg

from bench.queues import AT_ONCE

BATCH, SESSION = 100, 7
TABLE = """
CREATE TABLE by_hand (
    id text COLLATE "C" PRIMARY KEY, pos bigint GENERATED ALWAYS AS IDENTITY, queue text COLLATE "C" NOT NULL,
    lane bigint NOT NULL, name text NOT NULL, arguments bytea NOT NULL, due bigint, attempt bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0, session bigint, enqueued timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
INDEXES = (
    "CREATE INDEX ON by_hand (queue, lane, pos) WHERE session IS NULL AND due IS NULL",
    "CREATE INDEX ON by_hand (queue, due, pos) WHERE session IS NULL AND due IS NOT NULL",
    "CREATE INDEX ON by_hand (session, pos) WHERE session IS NOT NULL",
)
ADD = "INSERT INTO by_hand (id, queue, lane, name, arguments) VALUES (%b, 'bench', 2, 'handle', %b)"
ADD_MANY = (
    "INSERT INTO by_hand (id, queue, lane, name, arguments)"
    " SELECT id, 'bench', 2, 'handle', arguments FROM unnest(%b::text[], %b::bytea[]) AS new (id, arguments)"
)
CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT ctid AS place FROM by_hand WHERE queue = 'bench' AND lane = 2 AND session IS NULL AND due IS NULL
    AND pos > %b ORDER BY pos LIMIT %b FOR UPDATE SKIP LOCKED
)
UPDATE by_hand AS t SET session = %b, attempt = attempt + 1 FROM picked WHERE t.ctid = picked.place
RETURNING t.pos, t.id, t.attempt, t.name, t.arguments
"""
DONE = """
DELETE FROM by_hand AS t USING unnest(%b::text[], %b::bigint[]) AS r (id, attempt)
WHERE t.id = r.id AND t.attempt = r.attempt AND t.session = %b
"""


class PostgresByHand:
    """The loop that somebody writes who knows the database."""

    def __init__(self, dsn: str, *, tasks: int) -> None:
        self.name, self.tasks = "by hand", tasks
        self.handled: list[int] = []
        self._dsn = dsn
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement in (TABLE, *INDEXES):
                connection.execute(statement)

    async def fill(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for begin in range(0, self.tasks, AT_ONCE):
                add_many(connection, range(begin, min(begin + AT_ONCE, self.tasks)))

    async def drain(self) -> None:
        lazy = psycopg.connect(self._dsn, autocommit=True, options="-c synchronous_commit=off")
        with psycopg.connect(self._dsn, autocommit=True) as durable, lazy:
            after = 0
            while rows := lazy.execute(CLAIM, (after, BATCH, SESSION), binary=True).fetchall():
                for _, _, _, _, arguments in rows:
                    self.handled += json.loads(arguments)
                after = max(row[0] for row in rows)
                durable.execute(DONE, ([row[1] for row in rows], [row[2] for row in rows], SESSION))
        with psycopg.connect(self._dsn) as connection:
            if left := connection.execute("SELECT count(*) FROM by_hand").fetchall()[0][0]:
                raise RuntimeError(f"{left} tasks are left after a drain")


def add_many(connection: "psycopg.Connection[tuple[object, ...]]", numbers: range) -> None:
    """Add a task for each number, in one statement."""
    connection.execute(ADD_MANY, ([uuid4().hex for _ in numbers], [arguments(number) for number in numbers]))


def arguments(number: int) -> bytes:
    """Return the arguments of a task."""
    return json.dumps([number]).encode()
