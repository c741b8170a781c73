"""The least that a hand-over through PostgreSQL takes: one durable statement, until another process has heard of it.

Plain psycopg in two processes, and no group: an owner gives away a row if its epoch is what it was, and notifies who
listens, in one commit. The next owner may begin when it hears that, so this is the floor under `group_handover`, which
has a goal in commits. Each commit one after another, and each after a rest, as it is with hand-overs.
"""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import monotonic, sleep

import psycopg

from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.figures.group_handover import COMMITS, REST_SECONDS
from bench.groups import quantile
from bench.row import Row

NAME = "hand-over by hand, postgresql"
TABLE = "CREATE TABLE owned (part int PRIMARY KEY, owner text, epoch bigint)"
GIVE = (
    "WITH given AS (UPDATE owned SET owner = 'b', epoch = epoch + 1 WHERE part = 1 AND epoch = %s RETURNING epoch)"
    " SELECT pg_notify('given', epoch::text) FROM given"
)


def rows() -> list[Row]:
    """Give a row away many times, to another process."""
    return engines.rows_of(_measure, "postgres", what=NAME)


async def _measure(rig: Rig) -> list[Row]:
    url = rig.url("hand").partition("?")[0]
    running, _ = _given(url, 0)
    resting, heard = _given(url, REST_SECONDS)
    rest = f"after a rest of {1000 * REST_SECONDS:g} ms"
    return [
        _row(f"{NAME}: a commit alone, one after another, p50", running),
        _row(f"{NAME}: a commit alone, {rest}, p50", resting),
        _row(f"{NAME}: until the other process has heard of it, {rest}, p50", heard),
        _row(f"{NAME}: the same over one of many commits", heard / running, "x"),
    ]


def _given(url: str, rest_seconds: float) -> tuple[float, float]:
    """Return milliseconds in the median: of a commit, and of the time until it is heard."""
    ours, theirs = get_context("spawn").Pipe()
    listener = get_context("spawn").Process(target=_listen, args=(url, theirs), daemon=True)
    listener.start()
    took, heard = [], []
    try:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("DROP TABLE IF EXISTS owned")
            owner.execute(TABLE)
            owner.execute("INSERT INTO owned VALUES (1, 'a', 0)")
            ours.recv()
            for epoch in range(COMMITS):
                sleep(rest_seconds)
                began = monotonic()
                owner.execute(GIVE, (epoch,))
                took.append(1000 * (monotonic() - began))
                heard.append(1000 * (ours.recv() - began))
    finally:
        listener.terminate()
        listener.join()
    return quantile(sorted(took), 0.5), quantile(sorted(heard), 0.5)


def _listen(url: str, told: Connection) -> None:
    """Say when each notification came, on the clock that all processes of the machine share."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN given")
        told.send(monotonic())
        for _ in connection.notifies():
            told.send(monotonic())


def _row(name: str, value: float, unit: str = "ms") -> Row:
    return Row(name=name, value=value, shown=f"{value:.2f} {unit}")
