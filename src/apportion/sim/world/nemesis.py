"""The nemesis: the faults of one seed, and their times.

Each seed draws a random part of all kinds of faults, each at a random rate (swarm testing). If everything always
failed a little, all worlds would be alike. They would hide the bugs that appear only when one thing fails often.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from apportion.groups.view.keys import GroupKeys
from apportion.sim.invariants.ownership import ownership
from apportion.sim.world.losses import Way
from apportion.sim.world.network import FAIR, TASKS, Weather
from apportion.sim.world.process import ProcessState
from apportion.sim.world.troubles import Odds, Troubles
from apportion.sim.world.vandal import damage_record, damage_schedule, damage_task, step_clock

if TYPE_CHECKING:
    from apportion.sim.world.world import World

Start = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The faults of one seed: the network's weather, the store's odds, and the single faults, called blows."""

    weather: Weather
    odds: Odds
    blows: tuple[str, ...]
    pause_seconds: float

    @staticmethod
    def drawn(seed: int, *, blows: Iterable[str] | None = None) -> "Mix":
        """Draw the mix of a seed.

        Its blows come from `blows`, or else from all kinds that are not in `_ASKED_FOR`.
        """
        draw = Random(f"{seed} mix")  # noqa: S311 - it must repeat
        weather = Weather(
            most_seconds=draw.choice([0.002, 0.01, 0.05]),
            lost=_ratio(draw, 0.1),
            duplicated=_ratio(draw, 0.2),
            reordered=_ratio(draw, 0.2),
            late=_ratio(draw, 0.1),
        )
        odds = Odds(
            stale_scan=_ratio(draw, 0.5),
            watch_gap=_ratio(draw, 0.05),
            watch_silent=_ratio(draw, 0.1),
            sync_error=_ratio(draw, 0.1),
            cancelled=_ratio(draw, 0.5),
        )
        among = [name for name in BLOWS if name not in _ASKED_FOR] if blows is None else blows
        drawn = tuple(name for name in among if draw.random() < 0.4)
        return Mix(weather=weather, odds=odds, blows=drawn, pause_seconds=draw.uniform(0.3, 2.0))


def _ratio(draw: Random, most: float) -> float:
    enabled, ratio = draw.random() < 0.5, draw.uniform(0, most)
    return ratio if enabled else 0.0


class Nemesis:
    """Applies the faults of a mix to a world; `start` starts a killed process anew."""

    def __init__(self, world: "World", mix: Mix, *, start: Start) -> None:
        self.world = world
        self.mix = mix
        self.start = start
        self.draw: Random = world.draws("nemesis")
        self.copies: list[list[object]] = []
        self.down: list[str] = []
        self.stepped_ms: int = 0

    async def rage(self, until: float) -> None:
        """Do harm until this time of the world's clock."""
        world = self.world
        world.network.weather = self.mix.weather
        for each in self._troubles:
            each.odds = self.mix.odds
        copying = asyncio.create_task(self._copy())
        while world.now < until:
            await asyncio.sleep(min(self.draw.expovariate(1 / self.mix.pause_seconds), max(0.0, until - world.now)))
            if self.mix.blows and world.now < until:
                name = self.draw.choice(self.mix.blows)
                await BLOWS[name](self)
        copying.cancel()

    def rest(self) -> None:
        """Mend everything, and start the processes that are down."""
        world = self.world
        world.network.weather = FAIR
        world.network.heal()
        for each in self._troubles:
            each.mend()
        step_clock(world, -self.stepped_ms)
        self.stepped_ms = 0
        world.processes.resume_all()
        for name in self.down:
            self.start(name)
        self.down.clear()

    def victim(self) -> str:
        """Draw a process."""
        return self.draw.choice(self.running)

    def victims(self) -> list[Troubles]:
        """Draw the store, its tasks, or both. If the world uses no tasks, return the store.

        In a world of two stores, the store of the groups is drawn as often as the other one, and now and then with it.
        """
        world = self.world
        if TASKS not in world.network.places:
            return [world.troubles]
        of_tasks = [[world.troubles], [world.task_troubles], [world.troubles, world.task_troubles]]
        groups = list(world.group.troubles)
        others = [] if world.group is world.site else [groups, groups, groups, self._troubles]
        drawn = self.draw.choice([*of_tasks, *others])
        world.trace.cover(f"strikes {' + '.join(each.place for each in drawn)}")
        return drawn

    def sites(self) -> tuple[int, ...]:
        """Draw the stores that go back together, by their number in the world: in most cases one."""
        if len(self.world.sites) == 1:
            return (0,)
        return self.draw.choice([(0,), (1,), (0, 1)])

    @property
    def running(self) -> list[str]:
        """The processes that take part and are not dead, sorted."""
        return [name for name in self.world.processes.names if not name.startswith("(")]

    @property
    def _troubles(self) -> list[Troubles]:
        return [each for site in self.world.sites for each in site.troubles]

    async def _copy(self) -> None:
        while True:
            self.copies.append([site.backing.save() for site in self.world.sites])
            await asyncio.sleep(1.0)

    def restore(self, copy: int, why: str) -> None:
        """Replace the data of some stores by those of a copy."""
        for each in self.sites():
            self.world.sites[each].restore(self.copies[copy][each], why)


async def _pause(nemesis: Nemesis) -> None:
    name, seconds = nemesis.victim(), nemesis.draw.uniform(0.1, 6.0)
    if nemesis.world.trace.inject("pause", name):
        nemesis.world.pause(name, seconds)


async def _kill(nemesis: Nemesis) -> None:
    name, seconds = nemesis.victim(), nemesis.draw.uniform(0.1, 5.0)
    if len(nemesis.running) < 2 or not nemesis.world.trace.inject("kill", name):
        return
    nemesis.world.kill(name)
    nemesis.down.append(name)
    await asyncio.sleep(seconds / 4)
    nemesis.start(name)
    nemesis.down.remove(name)


async def _partition(nemesis: Nemesis) -> None:
    name, seconds = nemesis.victim(), nemesis.draw.uniform(0.5, 6.0)
    if nemesis.world.trace.inject("partition", name):
        for store in nemesis.victims():
            nemesis.world.partition(name, store.place, seconds)


async def _one_way(nemesis: Nemesis) -> None:
    link, seconds = [nemesis.victim(), nemesis.victims()[0].place], nemesis.draw.uniform(0.5, 6.0)
    nemesis.draw.shuffle(link)
    if nemesis.world.trace.inject("one-way partition", ">".join(link)):
        nemesis.world.partition(link[0], link[1], seconds, one_way=True)


async def _clog(nemesis: Nemesis) -> None:
    link, seconds = [nemesis.victim(), nemesis.victims()[0].place], nemesis.draw.uniform(0.2, 3.0)
    nemesis.draw.shuffle(link)
    if nemesis.world.trace.inject("clogged link", ">".join(link)):
        nemesis.world.network.clog(link[0], link[1], seconds)


async def _swizzle(nemesis: Nemesis) -> None:
    """Cut some processes from the store one after another, and mend their links in another order."""
    running = nemesis.running
    names = nemesis.draw.sample(running, nemesis.draw.randint(1, len(running)))
    if not nemesis.world.trace.inject("swizzle", ",".join(names)):
        return
    place = nemesis.victims()[0].place
    for name in names:
        nemesis.world.network.partition(name, place, 10.0)
        await asyncio.sleep(nemesis.draw.uniform(0, 0.3))
    nemesis.draw.shuffle(names)
    for name in names:
        nemesis.world.network.heal([(name, place), (place, name)])
        await asyncio.sleep(nemesis.draw.uniform(0, 0.3))


async def _away(nemesis: Nemesis) -> None:
    world, seconds = nemesis.world, nemesis.draw.uniform(0.2, 4.0)
    if world.trace.inject("store away", f"{seconds:.3f} s"):
        for store in nemesis.victims():
            store.away_until = world.now + seconds


async def _crash(nemesis: Nemesis) -> None:
    """Lose the data since the last sync; the store syncs once a second. It then has a new incarnation."""
    if nemesis.copies and nemesis.world.trace.inject("store crash", "to its last sync"):
        await _away(nemesis)
        nemesis.restore(-1, "crashes and loses its last second")


async def _restore(nemesis: Nemesis) -> None:
    copy = nemesis.draw.randrange(len(nemesis.copies)) if nemesis.copies else 0
    if nemesis.copies and nemesis.world.trace.inject("store restore", f"copy {copy}"):
        nemesis.restore(copy, "is restored from an old copy")


async def _full(nemesis: Nemesis) -> None:
    world, seconds = nemesis.world, nemesis.draw.uniform(0.5, 4.0)
    if world.trace.inject("disk full", f"{seconds:.3f} s"):
        for store in nemesis.victims():
            store.full_until = world.now + seconds


async def _compact(nemesis: Nemesis) -> None:
    if nemesis.world.trace.inject("compaction", ""):
        for each in nemesis.sites():
            nemesis.world.sites[each].backing.compact()


async def _rearm(nemesis: Nemesis) -> None:
    if nemesis.world.trace.inject("store restart", "leases begin again"):
        await _away(nemesis)
        for each in nemesis.sites():
            nemesis.world.sites[each].backing.rearm()


async def _step_wall(nemesis: Nemesis) -> None:
    name, seconds = nemesis.victim(), nemesis.draw.uniform(-7200, 7200)
    if nemesis.world.trace.inject("wall clock step", name):
        nemesis.world.processes.known(name).wall_offset += seconds


async def _lose(nemesis: Nemesis) -> None:
    """Lose one of the next commits of a process, and perhaps those after it.

    The trace counts a loss when its commit is sent.
    """
    way, number, times = nemesis.draw.choice(list(Way)), nemesis.draw.randint(1, 4), nemesis.draw.choice([1, 1, 2, 3])
    nemesis.victims()[-1].losses.lose(number, way, process=nemesis.victim(), times=times)


async def _deny(nemesis: Nemesis) -> None:
    world, seconds = nemesis.world, nemesis.draw.uniform(0.2, 4.0)
    name = None if nemesis.draw.random() < 0.5 else nemesis.victim()
    if world.trace.inject("store denied", "all" if name is None else name):
        for store in nemesis.victims():
            store.deny(name, world.now + seconds)


async def _silence(nemesis: Nemesis) -> None:
    world, name = nemesis.world, nemesis.victim()
    way = nemesis.draw.choice([Way.REQUEST, Way.REPLY])
    if world.trace.inject("connection silent", f"{name} loses {way.value}"):
        for store in nemesis.victims():
            store.silence(name, world.now, way)


async def _flap(nemesis: Nemesis) -> None:
    """Pause the owner of the first partition past its lease. The next such blow pauses the next owner."""
    world, seconds = nemesis.world, nemesis.draw.uniform(2.2, 2.6)
    items = sorted(
        (key, item) for key, item in world.group_checker.history.items.items() if GroupKeys.parsed(key)[1] == "own"
    )
    owner = ownership(items[0][1].value).owner if items else None
    is_awake = owner in nemesis.running and world.processes.known(owner).state is ProcessState.RUNNING
    if owner is not None and is_awake and world.trace.inject("owner paused past its lease", owner):
        world.pause(owner, seconds)


async def _step_clock(nemesis: Nemesis) -> None:
    """Step the clock of the store's tasks, a little or by hours."""
    milliseconds = nemesis.draw.choice([-3_600_000, -700, 700, 3_600_000])
    if nemesis.world.trace.inject("clock step of the store", f"{milliseconds} ms"):
        nemesis.stepped_ms += milliseconds
        step_clock(nemesis.world, milliseconds)


async def _damage(nemesis: Nemesis) -> None:
    await damage_record(nemesis.world, nemesis.draw)


async def _damage_schedule(nemesis: Nemesis) -> None:
    damage_schedule(nemesis.world, nemesis.draw)


async def _damage_task(nemesis: Nemesis) -> None:
    damage_task(nemesis.world, nemesis.draw)


async def _kill_child(nemesis: Nemesis) -> None:
    children = nemesis.world.children.names
    if children and nemesis.world.trace.inject("kill of a child", child := nemesis.draw.choice(children)):
        nemesis.world.kill(child)


BLOWS: dict[str, Callable[[Nemesis], Awaitable[None]]] = {
    "pause": _pause,
    "kill": _kill,
    "partition": _partition,
    "one-way partition": _one_way,
    "clogged link": _clog,
    "swizzle": _swizzle,
    "store away": _away,
    "store crash": _crash,
    "store restore": _restore,
    "disk full": _full,
    "compaction": _compact,
    "store restart": _rearm,
    "wall clock step": _step_wall,
    "lost commit": _lose,
    "store denied": _deny,
    "connection silent": _silence,
    "damaged record": _damage,
    "owner paused past its lease": _flap,
    "clock step of the store": _step_clock,
    "kill of a child": _kill_child,
    "damaged schedule": _damage_schedule,
    "damaged task": _damage_task,
}
OF_TASKS = frozenset({"clock step of the store", "kill of a child"})
_ASKED_FOR = frozenset({"damaged record", "damaged schedule", "damaged task", "owner paused past its lease", *OF_TASKS})
