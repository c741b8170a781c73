"""Commits of one caller, in the modes that lose nothing: the store beside its client library, used by hand.

By hand is the same round trip to the same engine with the same effects: a compare, the counter of revisions, the item,
and the history. Each of a handful of rounds makes so many commits one after another, ours and by hand in turn. What it
costs to hop to the I/O thread and back is measured on the memory store, which costs next to nothing itself.
"""

import asyncio
import sqlite3
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter_ns

import httpx
import psycopg

import apportion
from apportion.sim.conformance.rig import Rig
from apportion.stores import Absent, Committed, CoordinationStore, Put, Unchanged, connect
from bench import engines
from bench.clock import spread
from bench.goal import at_least
from bench.row import Row

ROUNDS, COMMITS, HOPS = 11, 150, 2_000
VALUE = b"x" * 100
GOAL = at_least(0.7, "x by hand")
Commit = Callable[[], Awaitable[None]]


def rows() -> list[Row]:
    """Commit to each store, and hop."""
    return [*engines.rows_of(_measure, *engines.NAMES, what="commit"), asyncio.run(_hop())]


async def _measure(rig: Rig) -> list[Row]:
    store = await rig.connect("bench")
    try:
        async with BY_HAND[rig.name](rig) as by_hand:
            ours_ns, by_hand_ns = await _race(await one_caller(store), by_hand)
    finally:
        await store.close()
    ratio = median(by_hand_ns) / median(ours_ns)
    pairs = [theirs / ours for theirs, ours in zip(by_hand_ns, ours_ns, strict=True)]
    milliseconds = median(ours_ns) / COMMITS / 1e6
    shown = f"{ratio:.2f} x by hand ({min(pairs):.2f}..{max(pairs):.2f}), {milliseconds:.2f} ms a commit"
    name = f"commit of one caller, durable, {rig.name}"
    return [Row(name=name, value=ratio, shown=shown, goal=str(GOAL), met=GOAL.is_met(ratio))]


async def _race(ours: Commit, by_hand: Commit) -> tuple[list[int], list[int]]:
    times: dict[Commit, list[int]] = {ours: [], by_hand: []}
    for _ in range(1 + ROUNDS):  # the first is not counted: files grow to their size
        for commit, spent in times.items():
            began = perf_counter_ns()
            for _ in range(COMMITS):
                await commit()
            spent.append(perf_counter_ns() - began)
    return times[ours][1:], times[by_hand][1:]


async def one_caller(store: CoordinationStore) -> Commit:
    """Return a commit of ours, to be made over and over."""
    first = await store.commit(when=[Absent(key="ours")], puts=[Put(key="ours", value=VALUE)])
    if not isinstance(first, Committed):
        raise TypeError(f"a first commit was {first}")
    revision = first.revision

    async def commit() -> None:
        nonlocal revision
        when = [Unchanged(key="ours", revision=revision)]
        outcome = await store.commit(when=when, puts=[Put(key="ours", value=VALUE)])
        if not isinstance(outcome, Committed):
            raise TypeError(f"a commit that nothing disturbs was {outcome}")
        revision = outcome.revision

    return commit


@asynccontextmanager
async def _sqlite_by_hand(rig: Rig) -> AsyncIterator[Commit]:
    file = Path(rig.url("bench").removeprefix("sqlite:///").partition("?")[0])
    with TemporaryDirectory(dir=file.parent) as folder:
        connection = sqlite3.connect(Path(folder) / "hand.db", isolation_level=None)
        connection.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE meta (revision INTEGER);"
            "INSERT INTO meta VALUES (1); CREATE TABLE item (key BLOB PRIMARY KEY, value BLOB, revision INTEGER);"
            "INSERT INTO item VALUES (x'61', x'', 1);"
            "CREATE TABLE event (revision INTEGER, key BLOB, value BLOB, PRIMARY KEY (revision, key)) WITHOUT ROWID;"
        )

        written = [1]

        async def commit() -> None:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute("SELECT revision FROM item WHERE key = ?", (b"a",)).fetchone()
            if found != (written[-1],):
                raise TypeError("a commit that nothing disturbs was refused")
            advance = "UPDATE meta SET revision = revision + 1 RETURNING revision"
            ((revision,),) = connection.execute(advance).fetchall()
            connection.execute("REPLACE INTO item VALUES (?, ?, ?)", (b"a", VALUE, revision))
            connection.execute("INSERT INTO event VALUES (?, ?, ?)", (revision, b"a", VALUE))
            written[-1] = revision
            connection.execute("COMMIT")

        yield commit
        connection.close()


@asynccontextmanager
async def _postgres_by_hand(rig: Rig) -> AsyncIterator[Commit]:
    url = rig.url("bench").partition("?")[0]
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with connection:
        await connection.execute("CREATE TABLE meta (revision bigint)")
        await connection.execute("INSERT INTO meta VALUES (1)")
        await connection.execute("CREATE TABLE item (key bytea PRIMARY KEY, value bytea, revision bigint)")
        await connection.execute("INSERT INTO item VALUES ('a', '', 1)")
        await connection.execute("CREATE TABLE event (revision bigint, key bytea, value bytea)")

        async def commit() -> None:
            async with connection.pipeline(), connection.transaction():
                await connection.execute("UPDATE meta SET revision = revision + 1")
                changed = "UPDATE item SET value = %s, revision = meta.revision FROM meta WHERE key = %s"
                await connection.execute(changed, (VALUE, b"a"))
                await connection.execute("INSERT INTO event SELECT revision, %s, %s FROM meta", (b"a", VALUE))
                await connection.execute("SELECT pg_notify('hand', '1')")

        yield commit


@asynccontextmanager
async def _etcd_by_hand(rig: Rig) -> AsyncIterator[Commit]:
    host, port = rig.address()
    key, value = (b64encode(text).decode() for text in (b"hand", VALUE))
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as client:
        written = (await client.post("/v3/kv/put", json={"key": key, "value": value})).json()
        revision = written["header"]["revision"]

        async def commit() -> None:
            nonlocal revision
            compare = {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision}
            put = {"request_put": {"key": key, "value": value}}
            answer = (await client.post("/v3/kv/txn", json={"compare": [compare], "success": [put]})).json()
            if not answer["succeeded"]:
                raise TypeError("a transaction that nothing disturbs did not succeed")
            revision = answer["header"]["revision"]

        yield commit


async def _hop() -> Row:
    here = await connect("memory://hop")
    async with apportion.open_store("memory://hop") as there:
        times: dict[str, list[int]] = {"here": [], "there": []}
        for _ in range(HOPS):
            for name, store in (("here", here), ("there", there)):
                began = perf_counter_ns()
                await store.renew([1])
                times[name].append(perf_counter_ns() - began)
    await here.close()
    hop = spread([there - here for there, here in zip(times["there"], times["here"], strict=True)], calls=1_000)
    return Row(name="hop to the I/O thread and back", value=hop.median, shown=f"{hop.median:.0f} us")


BY_HAND = {"sqlite": _sqlite_by_hand, "postgresql": _postgres_by_hand, "etcd": _etcd_by_hand}
