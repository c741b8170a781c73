"""Oracle: one database with all rows of a set, and a mover that brings slots to and fro meanwhile."""

import asyncio
import math
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from apportion import sync
from apportion.errors import NotScatterable
from apportion.groups.leader import leader
from apportion.model.topology import Node
from apportion.runtime.clock import SystemClock
from apportion.shards import admin
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import Mover
from apportion.shards.mover.rescue import MOVER_TTL
from apportion.shards.postgres.sites import PostgresSites
from apportion.shards.records import ShardRecord
from apportion.shards.sqlite.sites import SqliteSites
from apportion.stores.catalog import connect
from tests.shards.sample import SET
from tests.shards.scatter.statements import REFERENCES, Base, Currency, Draw, Shop, Staff, rows
from tests.shards.server import OWNER

GROUP_SLOTS = 12


def filled(databases, url, *, seed=5):
    """Write rows to a set and to one database; return the engine of that database."""
    oracle = create_engine(url)
    Base.metadata.create_all(oracle)
    with sync.open_shards(databases.url, SET, base=Base) as router:
        tenant = ""
        for row in rows(seed):
            tenant = row.tenant if isinstance(row, Shop | Staff) else tenant
            router.run(tenant, lambda session, row=row: session.add(row))
    for shard in databases.shards:
        for code, rate in REFERENCES:
            databases.sql(shard, "INSERT INTO currency (code, rate) VALUES (?, ?)", (code, rate))
    with Session(oracle) as session:
        for row in rows(seed):
            row.slot = 0
            session.add(row)
            session.flush()  # the parent of the next rows
        session.add_all(Currency(code=code, rate=rate) for code, rate in REFERENCES)
        session.commit()
    return oracle


class Differs(AssertionError):
    """An answer has other rows than one database."""


def compared(databases, oracle, kind, seeds, *, clause=""):
    """Ask a set and one database for random statements; return the counts of answers and of their clauses.

    With a `clause`, only statements that have it are asked.
    """
    counts = Counter()
    with sync.open_shards(databases.url, SET, base=Base) as router, Session(oracle) as session:
        for seed in seeds:
            drawn = Draw(seed, kind).statement()
            if clause and clause not in drawn.clauses:
                continue
            try:
                answer = router.scatter(drawn.statement)
            except NotScatterable:
                counts["refused"] += 1
                continue
            counts.update(["answered", *drawn.clauses])
            if found := difference(drawn, answer.all(), session):
                raise Differs(f"seed {seed}: {found}\n{drawn.statement}")
    return counts


def difference(drawn, got, session):
    """Return how an answer differs from that of one database, "" if it does not."""
    want = session.execute(drawn.statement).all()
    if len(got) != len(want):
        return f"{len(got)} rows, and not {len(want)}"
    if drawn.is_total:
        return next((f"{one}, and not {two}" for one, two in zip(got, want, strict=True) if not _alike(one, two)), "")
    every = Counter(map(_rounded, session.execute(drawn.unlimited).all()))
    found = Counter(map(_rounded, got))
    if found - every:
        return f"{found - every} are no rows of one database"
    return "" if len(want) < every.total() or found == every else f"{every - found} are missing"


def _alike(one, two):
    return len(one) == len(two) and all(map(_is_near, one, two))


def _is_near(one, two):
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(two) and one == two


def _rounded(row):
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)


@contextmanager
def moving(databases):
    """Move slots between the shards until the end of the block; yield the list of moves that are complete."""
    ended, done = threading.Event(), []
    thread = threading.Thread(target=lambda: asyncio.run(_moved(databases, ended, done)))
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()


async def _moved(databases, ended, done):
    table = (await admin.status(databases.url, SET)).table
    first = next(shard for shard in databases.shards if list(table.owners.values()).count(shard) >= GROUP_SLOTS)
    owned = [slot for slot, shard in table.owners.items() if shard == first][:GROUP_SLOTS]
    store, nodes = await connect(databases.url), {shard: Node(shard) for shard in databases.shards}
    sites = _sites(databases)
    mover = Mover(store, SET, sites, nodes, clock=SystemClock(), wall=time.time)
    way, begun = [first, *(shard for shard in databases.shards if shard != first)], uuid4().hex[:6]
    try:
        async with leader(databases.url, f"{SET}.mover", lease_ttl=MOVER_TTL) as election:
            token = await election.wait_until_elected()
            while not ended.is_set():
                source, target = way[len(done) % 3], way[(len(done) + 1) % 3]
                group = MoveGroup(move=f"m{begun}{len(done)}", source=source, target=target, slots=tuple(owned))
                await mover.begin(group)
                await mover.run(group.move, token, cleans=True)
                done.append(group.move)
    finally:
        await sites.close()
        await store.close()


def _sites(databases):
    if databases.kind == "sqlite":
        return SqliteSites(SET, {shard: Path(databases.folder) / f"{shard}.db" for shard in databases.shards})
    urls = {shard: databases.place(shard).replace("${SERVER_ROLE}", OWNER) for shard in databases.shards}
    return PostgresSites(SET, {shard: ShardRecord(url=url) for shard, url in urls.items()})
