"""The pause of writers while a group of slots switches between two databases of one PostgreSQL server.

The group moves by replication on one server, and by a log of keys on another. Eight processes write to all its slots,
while a mover brings it to and fro. The pause of a move is the time in which no process succeeds, of all its attempts.
Beside it stand the waits of the mover for the servers: from the end of the act that fences the source to the end of the
switch, as a number and as a time.
"""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from apportion.shards import admin
from apportion.shards.channel import KEYS, ChannelWish
from apportion.shards.postgres.sites import PostgresSites
from apportion.shards.records import ShardRecord
from bench import engines, switches
from bench.goal import Goal, at_most
from bench.row import Row

MEDIAN, LATE, LATE_BY_KEYS = at_most(40, "ms"), at_most(100, "ms"), at_most(150, "ms")
NATIVE = ChannelWish(kind="native")
SECRET = "BENCH_SHARDS_SECRET"


def rows() -> list[Row]:
    """Measure all switches of one group under eight writers, by each channel."""
    what = "pause of a move on PostgreSQL"
    return [
        *engines.rows_of(partial(_measured, NATIVE, (MEDIAN, LATE)), "logical postgres", what=what),
        *engines.rows_of(partial(_measured, KEYS, (None, LATE_BY_KEYS)), "plain postgres", what=what),
    ]


async def _measured(wish: ChannelWish, goals: tuple[Goal | None, Goal], rig: Any) -> list[Row]:  # noqa: ANN401 - a rig
    return await asyncio.to_thread(_rows, wish, goals, rig)


def _rows(wish: ChannelWish, goals: tuple[Goal | None, Goal], rig: Any) -> list[Row]:  # noqa: ANN401 - a rig
    waits = import_module("tests.shards.fence_waits").Waits()
    with TemporaryDirectory() as folder:
        control = f"sqlite:///{Path(folder) / 'control.db'}"
        urls = {each: place_url(rig, each) for each in ("one", "two")}
        asyncio.run(admin.init(control, "world", urls, base=switches.Base))
        records = {shard: ShardRecord(url=url) for shard, url in urls.items()}
        with waits.counting():
            found = switches.measured(control, partial(PostgresSites, "world", records, wish), waits)
    pauses = [each * 1e3 for each in found.pauses()]
    tries = sum(map(len, found.ends))
    kind = "replication" if wish is NATIVE else "a log of keys"
    name = f"write pause of a group on PostgreSQL by {kind} under {switches.WRITERS} processes"
    fence = f"by {kind} from the fence to the switch"
    times = [each * 1e3 for each in waits.seconds]
    return [
        _row(f"{name}, p50", median(pauses), f"ms ({len(pauses)} moves, {tries} attempts)", goals[0]),
        _row(f"{name}, p99", quantiles(pauses, n=100)[-1], f"ms (longest {max(pauses):.0f})", goals[1]),
        _row(f"waits for the servers {fence}, p50", median(waits.counts), f"({_ends(waits.counts)})"),
        _row(f"time {fence}, p50", median(times), f"ms ({_ends(times)})"),
    ]


def _row(name: str, value: float, unit: str, goal: Goal | None = None) -> Row:
    shown = f"{value:.0f} {unit}"
    return Row(
        name=name,
        value=value,
        shown=shown,
        goal=None if goal is None else str(goal),
        met=None if goal is None else goal.is_met(value),
    )


def _ends(values: Sequence[float]) -> str:
    return f"{min(values):.0f} to {max(values):.0f}"


def place_url(rig: Any, shard: str) -> str:  # noqa: ANN401 - a rig of the tests
    """Make a database, and return its URL, which names the variable with the password."""
    rig.sql(f"CREATE DATABASE {shard}", database="postgres")
    secret = import_module("tests.stores.rigs.postgres").SECRET
    os.environ[SECRET] = quote(secret, safe="")
    host, port = rig.address()
    return f"postgresql://postgres:${{{SECRET}}}@{host}:{port}/{shard}"
