"""Faults between members and their store: 45 in a minute on three member processes, then none; seed after seed.

Each member reaches PostgreSQL or etcd through a proxy of its own, which cuts, delays, goes silent, loses and refuses.
SQLite has no network: there members are stopped, another process holds the lock or reads for long, writes are refused.
A fault lasts up to two times to live, several may befall a member together. In the last three seconds each member is
silent, or stopped; with the minute all faults end at once.
`APPORTION_FAULT_SEEDS` is how many seeds per store (2). The checker knows the words of the members alone.
"""

import asyncio
import os
import random
import signal
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.proxy import Proxy
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import Goal, at_most
from bench.holders import Holders, Stop, overlaps, tokens_twice
from bench.row import Row

SEEDS = int(os.environ.get("APPORTION_FAULT_SEEDS", "2"))
MEMBERS, PARTITIONS, TTL_SECONDS = ("ann", "bob", "cid"), 12, 2.0
FAULTS, LAST_SECONDS, LONGEST_FAULT_SECONDS, FINAL_SECONDS = 45, 60.0, 4.0, 3.0
NONE, SERVED = at_most(0, ""), at_most(TTL_SECONDS + 2, "s")
_CLOCK = SystemClock()
Fault = Callable[[str, random.Random, float], Coroutine[object, object, None]]


@dataclass(slots=True, kw_only=True)
class _Found:
    """What seeds have shown."""

    holds: int = 0
    lost: int = 0
    overlaps: int = 0
    twice: int = 0
    served: list[float] = field(default_factory=list)


def rows() -> list[Row]:
    """Let faults befall a group on each store."""
    return engines.rows_of(_measure, *engines.NAMES, what="fault proxies")


async def _measure(rig: Rig) -> list[Row]:
    found = _Found()
    for seed in range(1, SEEDS + 1):
        await _play(rig, seed, found)
    label = f"fault proxies, {len(MEMBERS)} members, {FAULTS} faults in a minute, {SEEDS} seeds, {rig.name}"
    worst, each = max(found.served), ", ".join(f"{seconds:.2f}" for seconds in found.served)
    return [
        _row(f"{label}: overlaps", found.overlaps,
             f"{found.overlaps} of {found.holds} holds; {found.lost} partitions lost meanwhile", NONE),
        _row(f"{label}: tokens twice", found.twice, f"{found.twice} of {found.holds} holds", NONE),
        _row(f"{label}: all served after the last", worst, f"{worst:.2f} s ({each})", SERVED),
    ]  # fmt: skip


def _row(name: str, value: float, shown: str, goal: Goal) -> Row:
    return Row(name=name, value=value, shown=shown, goal=str(goal), met=goal.is_met(value))


async def _play(rig: Rig, seed: int, found: _Found) -> None:
    """Let the faults of one seed befall a group; add what its members said."""
    draw = random.Random(seed)
    url = rig.url(f"faults{seed}")
    async with AsyncExitStack() as undo:
        holders = Holders(url=url, partitions=PARTITIONS, ttl_seconds=TTL_SECONDS)
        undo.push_async_callback(holders.end)
        weather: _Files | _Network = _Files(holders, url) if rig.name == "sqlite" else _Network(rig)
        await weather.begin(undo)
        for name in MEMBERS:
            await holders.start(name, url=weather.url(f"faults{seed}", name))
        await holders.until(lambda: holders.is_shared(*MEMBERS))
        await _befall(weather, draw)
        ended = _CLOCK.elapsed()
        await holders.until(lambda: holders.served_after(ended) is not None)
        found.holds += len(holders.holds)
        found.lost += len(holders.lost)
        found.overlaps += len(overlaps(holders.holds, weather.stops))
        found.twice += len(tokens_twice(holders.holds))
        found.served.append(holders.served_after(ended) or 0.0)


async def _befall(weather: "_Files | _Network", draw: random.Random) -> None:
    """Let all faults begin in their turn, and end."""
    began, faults = _CLOCK.elapsed(), list[asyncio.Task[None]]()
    single, until = FAULTS - len(MEMBERS), LAST_SECONDS - FINAL_SECONDS
    for number in range(single):
        await asyncio.sleep(max(0.0, began + number * until / single - _CLOCK.elapsed()))
        name, fault, seconds = draw.choice(MEMBERS), draw.choice(weather.faults), draw.uniform(0, LONGEST_FAULT_SECONDS)
        faults.append(asyncio.create_task(fault(name, draw, seconds)))
    await asyncio.sleep(max(0.0, began + until - _CLOCK.elapsed()))
    faults += [asyncio.create_task(weather.final(name, draw, 2 * FINAL_SECONDS)) for name in MEMBERS]
    await asyncio.sleep(max(0.0, began + LAST_SECONDS - _CLOCK.elapsed()))
    for each in faults:
        each.cancel()
    for met in await asyncio.gather(*faults, return_exceptions=True):
        if isinstance(met, Exception):
            raise met


class _Network:
    """Proxies before a server, one per member, and the faults of networks."""

    def __init__(self, rig: Rig) -> None:
        self.stops: list[Stop] = []
        self._rig = rig
        self._proxies: dict[str, Proxy] = {}
        self._going = dict.fromkeys(MEMBERS, 0)
        self.faults: list[Fault] = [
            self._cut, self._delay, self._silence, self._half_open, self._lose_reply, self._lose_request, self._refuse,
            self._trickle,
        ]  # fmt: skip
        self.final: Fault = self._silence

    async def begin(self, undo: AsyncExitStack) -> None:
        """Put a proxy before the server for each member."""
        for name in MEMBERS:
            self._proxies[name] = proxy = Proxy(self._rig.address())
            await proxy.open()
            undo.push_async_callback(proxy.close)

    def url(self, namespace: str, name: str) -> str:
        """Return how a member reaches the store."""
        return self._rig.url(namespace, address=self._proxies[name].address)

    async def _cut(self, name: str, _: random.Random, __: float) -> None:
        self._proxies[name].cut()

    async def _delay(self, name: str, draw: random.Random, seconds: float) -> None:
        self._proxies[name].delay(draw.uniform(0.02, 1.0))
        await self._last(name, seconds)

    async def _silence(self, name: str, _: random.Random, seconds: float) -> None:
        self._proxies[name].silence()
        await self._last(name, seconds)

    async def _half_open(self, name: str, _: random.Random, seconds: float) -> None:
        self._proxies[name].half_open()
        await self._last(name, seconds)

    async def _lose_reply(self, name: str, draw: random.Random, _: float) -> None:
        self._proxies[name].lose_reply(draw.randint(1, 5))

    async def _lose_request(self, name: str, draw: random.Random, _: float) -> None:
        self._proxies[name].lose_request(draw.randint(1, 5))

    async def _refuse(self, name: str, _: random.Random, seconds: float) -> None:
        self._proxies[name].refuse()
        self._proxies[name].cut()
        await self._last(name, seconds)

    async def _trickle(self, name: str, draw: random.Random, seconds: float) -> None:
        self._proxies[name].trickle(draw.uniform(0.0002, 0.005))
        await self._last(name, seconds)

    async def _last(self, name: str, seconds: float) -> None:
        """Go on for a while; the last fault that befalls a member lets all be whole again."""
        self._going[name] += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._going[name] -= 1
            if not self._going[name]:
                self._proxies[name].heal()


class _Files:
    """The faults of a file that processes share."""

    def __init__(self, holders: Holders, url: str) -> None:
        self.stops: list[Stop] = []
        self._holders, self._url = holders, url
        self._path = Path(url.removeprefix("sqlite://").partition("?")[0])
        self.faults: list[Fault] = [self._stop, self._lock, self._read, self._deny]
        self.final: Fault = self._stop

    async def begin(self, undo: AsyncExitStack) -> None:
        """Nothing stands between members and their file."""

    def url(self, _: str, __: str) -> str:
        """Return how a member reaches the store."""
        return self._url

    async def _stop(self, name: str, _: random.Random, seconds: float) -> None:
        """Stop a member, with the lock of the file in its hands or without."""
        began = _CLOCK.elapsed()
        self._holders.send(name, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self._holders.send(name, signal.SIGCONT)
            self.stops.append((name, began, _CLOCK.elapsed()))

    async def _lock(self, _: str, __: random.Random, seconds: float) -> None:
        with closing(sqlite3.connect(self._path, isolation_level=None, timeout=0)) as other:
            while not _is_locked(other):
                await asyncio.sleep(0.002)
            await asyncio.sleep(seconds)

    async def _read(self, _: str, __: random.Random, seconds: float) -> None:
        """Read for long, so that no checkpoint can take away the log."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM lease").fetchone()
            await asyncio.sleep(seconds)

    async def _deny(self, name: str, _: random.Random, seconds: float) -> None:
        self._holders.say(name, "deny")
        try:
            await asyncio.sleep(seconds)
        finally:
            self._holders.say(name, "allow")


def _is_locked(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True
