"""A crash loop: one partition of 64 kills each of five supervised processes that takes it, for ten minutes.

Once it kills after 1.2 s and its process is back after half a second, once after 3 s and 4 s; both on SQLite, at once.
A partition is served from the moment at which its owner says so until the owner says that it lost it, or is dead.
"""

import asyncio
import tempfile
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from apportion.runtime.clock import SystemClock
from bench.goal import at_least, at_most
from bench.group_member import POISON
from bench.groups import Crew
from bench.row import Row

MEMBERS, PARTITIONS, TTL_SECONDS, LAST_SECONDS = 5, 64, 2.0, 600.0
DEATHS, A_MINUTE = at_most(18, "deaths"), at_least(60, "s")
MEAN, WORST = at_least(98, "%"), at_least(95, "%")


def rows() -> list[Row]:
    """Let both loops run."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(Path(folder)))


async def _measured(folder: Path) -> list[Row]:
    loops = [
        _Loop(Crew(url=f"sqlite:///{folder}/{number}.db", partitions=PARTITIONS, ttl_seconds=TTL_SECONDS,
                   fatal_seconds=kills), back_seconds=back)
        for number, (kills, back) in enumerate(((1.2, 0.5), (3.0, 4.0)))
    ]  # fmt: skip
    await asyncio.gather(*(each.run() for each in loops))
    return [row for each in loops for row in each.rows()]


@dataclass(slots=True, kw_only=True)
class _Death:
    member: str
    at: float


@dataclass(slots=True)
class _Loop:
    """One group with a deadly partition, and the supervisor of its processes."""

    crew: Crew
    back_seconds: float = field(kw_only=True)
    deaths: list[_Death] = field(default_factory=list)
    began: float = 0.0
    clock: SystemClock = field(default_factory=SystemClock)

    async def run(self) -> None:
        """Keep five processes running until the time is over."""
        self.began = self.clock.elapsed()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await asyncio.gather(*(self._supervise(f"m{number}") for number in range(MEMBERS)))
        await self.crew.end()

    def rows(self) -> list[Row]:
        """Return the figures."""
        served = sorted(100 * each for each in self._served().values())
        mean, gaps = sum(served) / len(served), self._gaps()
        label = f"poison of {PARTITIONS}, kills after {self.crew.fatal_seconds:g} s, {MEMBERS} processes, 10 minutes"
        count = len(self.deaths)
        return [
            Row(name=f"{label}: deaths", value=count, shown=f"{count}", goal=str(DEATHS), met=DEATHS.is_met(count)),
            Row(name=f"{label}: least time between deaths after the ninth", value=gaps, shown=f"{gaps:.0f} s",
                goal=str(A_MINUTE), met=A_MINUTE.is_met(gaps)),
            Row(name=f"{label}: innocents served, mean", value=mean, shown=f"{mean:.2f} %", goal=str(MEAN),
                met=MEAN.is_met(mean)),
            Row(name=f"{label}: innocents served, worst", value=served[0], shown=f"{served[0]:.2f} %",
                goal=str(WORST), met=WORST.is_met(served[0])),
        ]  # fmt: skip

    async def _supervise(self, name: str) -> None:
        life = 0
        while True:
            life += 1
            member = f"{name}-{life}"
            self.crew.start(member)
            while self.crew.processes[member].poll() is None:
                await asyncio.sleep(0.02)
            self.deaths.append(_Death(member=member, at=self.clock.elapsed()))
            del self.crew.processes[member]
            await asyncio.sleep(self.back_seconds)

    def _gaps(self) -> float:
        late = [each.at for each in self.deaths[8:]]
        return min((after - before for before, after in pairwise(late)), default=LAST_SECONDS)

    def _served(self) -> dict[int, float]:
        """Return the ratio of the time, from its first owner on, in which each innocent was served."""
        ends = self.began + LAST_SECONDS
        died = {each.member: each.at for each in self.deaths}
        served: defaultdict[int, float] = defaultdict(float)
        first: dict[int, float] = {}
        for partition in {*range(PARTITIONS)} - {POISON}:
            about = (each for each in self.crew.said if each.partition == partition)
            said = sorted((each.at, each.is_gain, each.member) for each in about)
            for at, is_gain, member in said:
                if is_gain:
                    first.setdefault(partition, at)
                    lost = (each for each, gains, who in said if not gains and who == member and each >= at)
                    served[partition] += min(next(lost, ends), died.get(member, ends), ends) - at
        return {each: served[each] / (ends - first[each]) for each in first}
