"""Ten processes run 100 schedules in three zones, over both changes of the clocks, while some are killed and stopped.

The clock of the store is stepped, a day at most at a time. On PostgreSQL, the clock of each process is up to five
minutes wrong too. The tasks of a paused queue stay, so they tell which slots were triggered. The slots that should
have been come from a walk over all minutes. At the end, old slots are triggered by hand again: each must be refused.
"""

import asyncio
import os
import random
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from time import monotonic

from apportion.errors import AlreadyTriggered
from apportion.sim.conformance.rig import Rig
from apportion.sim.slot_walk import SlotWalk, instant
from apportion.work import admin
from apportion.work.facade import Queue
from bench import engines
from bench.figures.cron_herd import Clock, clock_of
from bench.goal import at_most
from bench.queues.timetable import BEGIN, CALL, NAME, queue_at
from bench.row import Row

NODES, KILLS, STOPS, REPLAYED, WRONG_SECONDS = 10, 5, 5, 500, 300
STOPPED_SECONDS, PATIENCE_SECONDS, START_SECONDS = 1.0, 30.0, 60.0
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")
DAY = timedelta(days=1)
# Days around a change forward and one back in New York.
SPANS = (
    (datetime(2026, 3, 6, 20, 0, 30, tzinfo=UTC), datetime(2026, 3, 9, 20, 0, 30, tzinfo=UTC)),
    (datetime(2026, 10, 31, 20, 0, 30, tzinfo=UTC), datetime(2026, 11, 3, 20, 0, 30, tzinfo=UTC)),
)
NONE, MINUTE = at_most(0, ""), at_most(60, "s")
_FAKE_TIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
Slots = Counter[tuple[str, int]]


def rows() -> list[Row]:
    """Run on each store."""
    return engines.rows_of(_measure, "sqlite", "plain postgres", what="schedules under kills and stops")


def rules() -> dict[str, SlotWalk]:
    """Return the rule of each schedule: by elapsed hours, and by times that the changes swallow or repeat."""
    hours = ("*", "*", "0-4", "*/2")
    return {
        f"s{number:03}": SlotWalk(f"{number % 60} {hours[number % 4]} * * *", ZONES[number % 3])
        for number in range(100)
    }


def expected() -> Slots:
    """Return the slots of all schedules, with the last day of the time between the spans: `missed="all"` fires it."""
    (begin, middle), (again, end) = SPANS
    spans = [(instant(begin), instant(middle)), (instant(again - DAY), instant(end))]
    return Counter((name, slot) for name, walk in rules().items() for span in spans for slot in walk.between(*span))


def moments() -> Iterator[datetime]:
    """Yield the times to which the clock is stepped, after the first."""
    draw = random.Random(1)
    for number, (begin, end) in enumerate(SPANS):
        now = begin
        if number:
            yield now
        while now < end:
            now = min(end, now + DAY * draw.uniform(0.2, 1.0))
            yield now


async def _measure(rig: Rig) -> list[Row]:
    url = rig.url("bench")
    clock = await clock_of(rig, url)
    clock.step_to(SPANS[0][0])
    queue = queue_at(url)
    for name, walk in rules().items():
        await queue.schedule(name, CALL, cron=walk.rule, zone=walk.zone, missed="all", overlap="allow")
    await admin.pause(url, NAME)
    crew = Crew(url, is_wrong="postgres" in rig.name)
    try:
        await crew.fill()
        began = monotonic()  # ten interpreters have started
        for moment in moments():
            clock.step_to(moment)
            await _passed(crew, clock, moment)
        seconds, found = monotonic() - began, clock.triggered()
        tried = random.Random(2).sample([*found], REPLAYED)
        accepted = sum([await _again(queue, *each) for each in tried])
    finally:
        await crew.end()
        await queue.close()
    wanted, more = expected(), clock.triggered()
    name = f"{NODES} nodes, {len(rules())} schedules, {KILLS} kills, {STOPS} stops, {rig.name}"
    return [
        _count(f"{name}: slots that were not triggered", (wanted - found).total(), f"of {wanted.total()}"),
        _count(f"{name}: triggers of no slot, and second ones", (found - wanted).total(), f"of {found.total()}"),
        _count(f"{name}: old slots triggered again", accepted + (more - found).total(), f"of {REPLAYED} tried"),
        Row(
            name=f"{name}: time", value=seconds, shown=f"{seconds:.0f} s", goal=str(MINUTE), met=MINUTE.is_met(seconds)
        ),
    ]


async def _passed(crew: "Crew", clock: Clock, moment: datetime) -> None:
    """Kill and stop some nodes, and wait until all slots up to a moment were triggered."""
    acts = asyncio.gather(*crew.acts())
    with suppress(TimeoutError):  # the slots that are late then count as not triggered
        await _until(lambda: not clock.due(moment))
    await acts
    await crew.fill()


async def _again(queue: Queue, name: str, slot: int) -> bool:
    try:
        await queue.trigger(name, BEGIN + timedelta(milliseconds=slot))
    except AlreadyTriggered:
        return False
    return True


def _count(name: str, value: int, of: str) -> Row:
    return Row(name=name, value=value, shown=f"{value} {of}", goal=str(NONE), met=NONE.is_met(value))


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():
            await asyncio.sleep(0.05)


class Crew:
    """The nodes, and those that are to be killed or stopped; `is_wrong`: their clocks are wrong."""

    def __init__(self, url: str, *, is_wrong: bool) -> None:
        self._url, self._is_wrong, self._draw = url, is_wrong and _FAKE_TIME is not None, random.Random(3)
        self._nodes: list[Process] = []
        steps = [*range(len([*moments()]))]
        self._acts = (
            Counter(self._draw.choice(steps) for _ in range(KILLS)),
            Counter(self._draw.choice(steps) for _ in range(STOPS)),
        )
        self._step = 0

    async def fill(self) -> None:
        """Start nodes in place of killed ones, and wait until they are ready."""
        new = await asyncio.gather(*(self._started() for _ in range(NODES - len(self._nodes))))
        async with asyncio.timeout(START_SECONDS):
            for node in new:
                if node.stdout is None or not await node.stdout.readline():
                    raise RuntimeError("a node has ended")
        self._nodes += new

    def acts(self) -> list[Awaitable[None]]:
        """Return the kills and stops of this step."""
        kills, stops = (each[self._step] for each in self._acts)
        self._step += 1
        killed = [self._nodes.pop(self._draw.randrange(len(self._nodes))) for _ in range(kills)]
        stopped = self._draw.sample(self._nodes, stops)
        return [*map(self._kill, killed), *map(self._stop, stopped)]

    async def end(self) -> None:
        """End all nodes."""
        for node in self._nodes:
            with suppress(ProcessLookupError):
                node.kill()
            await node.wait()

    async def _started(self) -> Process:
        wrong = self._draw.randint(-WRONG_SECONDS, WRONG_SECONDS)
        fake = {"LD_PRELOAD": str(_FAKE_TIME), "FAKETIME": f"{wrong:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        environment = os.environ | (fake if self._is_wrong else {})
        command = (sys.executable, "-m", "bench.queues.timetable", self._url)
        return await asyncio.create_subprocess_exec(*command, env=environment, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)

    async def _kill(self, node: Process) -> None:
        await asyncio.sleep(self._draw.uniform(0, 0.8))
        node.kill()
        await node.wait()

    async def _stop(self, node: Process) -> None:
        await asyncio.sleep(self._draw.uniform(0, 0.8))
        node.send_signal(SIGSTOP)
        await asyncio.sleep(STOPPED_SECONDS)
        node.send_signal(SIGCONT)
