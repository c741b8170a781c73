"""Connections that stay open and say no more: every connection of a member process goes silent, new ones work.

At four times to live at once, again and again; a session that ends or a partition that is lost is counted by the
member's own words. Then the member leaves over connections that have just gone silent. SQLite has no connections.
"""

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.proxy import Proxy
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import Goal, at_most
from bench.holders import Holders
from bench.row import Row

TTLS_SECONDS, SILENCES, PARTITIONS = (2.0, 4.0, 6.0, 10.0), 5, 8
NONE = at_most(0, "")
_MEMBER, _OTHER = "ann", "bob"
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lived:
    """What a member said after all silences: how many sessions ended, what it lost, how long nobody held a partition.

    Leaving took so long with whole connections, and so long with silent ones.
    """

    ended: int
    lost: int
    gap_seconds: float
    whole_seconds: float
    silent_seconds: float


def rows() -> list[Row]:
    """Let connections go silent on each store that has any."""
    return engines.rows_of(_measure, "postgres", "etcd", what="half-open connections")


async def _measure(rig: Rig) -> list[Row]:
    lived = await asyncio.gather(*(_live(rig, ttl) for ttl in TTLS_SECONDS))
    found = list[Row]()
    for ttl, each in zip(TTLS_SECONDS, lived, strict=True):
        row, within = partial(_row, f"half-open {SILENCES} times, lease of {ttl:g} s, {rig.name}"), ttl / 4 + 1
        found += [
            row("sessions ended", each.ended, f"{each.ended}", NONE),
            row("partitions lost", each.lost, f"{each.lost}; longest time unheld {each.gap_seconds:.2f} s", NONE),
            row("leaving longer than over whole ones", each.silent_seconds - each.whole_seconds,
                f"{each.silent_seconds:.2f} s after {each.whole_seconds:.2f} s", at_most(within, "s")),
        ]  # fmt: skip
    return found


def _row(label: str, what: str, value: float, shown: str, goal: Goal) -> Row:
    return Row(name=f"{label}: {what}", value=value, shown=shown, goal=str(goal), met=goal.is_met(value))


async def _live(rig: Rig, ttl_seconds: float) -> _Lived:
    """Let a member live through silences, then leave; another one takes over."""
    draw, namespace = random.Random(int(ttl_seconds)), f"silent{ttl_seconds:g}"
    async with AsyncExitStack() as undo:
        proxy = Proxy(rig.address())
        await proxy.open()
        undo.push_async_callback(proxy.close)
        holders = Holders(url=rig.url(namespace), partitions=PARTITIONS, ttl_seconds=ttl_seconds)
        undo.push_async_callback(holders.end)
        await holders.start(_OTHER)
        await holders.start(_MEMBER, url=rig.url(namespace, address=proxy.address))
        await holders.until(lambda: holders.is_shared(_MEMBER, _OTHER))
        whole = await holders.leave(_MEMBER)
        holders.say(_MEMBER, "join")
        await holders.until(lambda: holders.is_shared(_MEMBER, _OTHER))
        began, before = _CLOCK.elapsed(), len(holders.lost)
        for _ in range(SILENCES):
            await asyncio.sleep(ttl_seconds * draw.uniform(0.25, 0.5))
            proxy.half_open()
            await asyncio.sleep(ttl_seconds * 1.2)
        lost, gap = len(holders.lost) - before, max(holders.gaps(after=began))
        proxy.half_open()
        silent = await holders.leave(_MEMBER)
        return _Lived(
            ended=holders.left[-1].sessions - 1, lost=lost, gap_seconds=gap, whole_seconds=whole, silent_seconds=silent
        )
