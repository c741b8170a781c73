"""The group's scenario: workers share partitions by the shipped driver, while members and the store fail.

The seed draws two to four members and sometimes a second process under an id. It draws three to six partitions, the
mode, a throttle, static members, and how workers work. It also draws the members that leave or are drained, and whether
a partition kills its owners.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from logging import CRITICAL, getLogger
from typing import Any

from apportion.groups import handover
from apportion.groups.crash_loops import LONGEST_WAIT_SECONDS
from apportion.groups.handover import Act, HandOverEvent, Phase
from apportion.groups.log import logger
from apportion.groups.opening import Options
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, Target, decoded_target
from apportion.sim.invariants.ownership import ownership
from apportion.sim.world.nemesis import Mix, Nemesis
from apportion.sim.world.process import outside
from apportion.sim.world.sink import Sink
from apportion.sim.world.trace import Trace
from apportion.sim.world.world import World
from apportion.stores import Item
from tests.sim.scenarios.group_worker import POISON, GroupWorker, Habits

GROUP, OTHER = "g", "h"
TTL_SECONDS, GRACE_SECONDS, SAFETY_SECONDS = 2.0, 3.0, 12.0
_SECOND, _VISITS = 0, 2  # seeds modulo four with a second process under the first id, and with visits
# Seeds modulo 32 in which all owners of one partition are paused in turn: the back-off grows only over many deaths.
# There no member leaves or is given up, for a process forgets its former sessions when it opens the group again.
_FLAPS, _FLAP_SECONDS, _FLAP_PAUSE_SECONDS = 23, 24.0, 0.3


class GroupPlay:
    """One seed of the scenario."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sink = Sink(world)
        self.draw = draw = world.draws("group")
        self.ids = [f"m{number}" for number in range(1, draw.randint(2, 4) + 1)]
        self.record = GroupRecord(
            partitions=draw.randint(3, 6), mode="eager" if draw.random() < 0.25 else "cooperative"
        )
        throttle = draw.choice([None, None, 1, 2])
        self.liveness_seconds, self.safety_seconds = 20.0, SAFETY_SECONDS
        self._options = {each: self._drawn(each, throttle) for each in self.ids}
        self._workers: dict[str, GroupWorker] = {}
        self._churn_seconds = draw.choice([0.5, 1.5, 3.0])
        self._poisons = draw.random() < 0.15
        self.liveness_seconds += LONGEST_WAIT_SECONDS if self._poisons else 0.0
        mix, self._flaps = Mix.drawn(world.seed), world.seed % 32 == _FLAPS
        if self._flaps:
            odds = replace(mix.odds, cancelled=0.0)
            mix = replace(mix, odds=odds, blows=("owner paused past its lease",), pause_seconds=_FLAP_PAUSE_SECONDS)
            self.safety_seconds = _FLAP_SECONDS
        self.nemesis = Nemesis(world, mix, start=self.start)
        self._churn: asyncio.Task[None] | None = None

    @property
    def processes(self) -> list[str]:
        """The processes that take part: one per id, and perhaps a second one under the first id."""
        return [*self.ids, f"{self.ids[0]}+"] if self.world.seed % 4 == _SECOND else self.ids

    def begin(self) -> None:
        """Start all processes, and the task that makes members leave and drain, unless owners flap."""
        for process in self.processes:
            self.start(process)
        if not self._flaps:
            self._churn = asyncio.create_task(self._come_and_go())

    def rest(self) -> None:
        """Let no member come or go any more."""
        if self._churn is not None:
            self._churn.cancel()

    def start(self, process: str) -> None:
        """Start a process, or a new life of it."""
        draw, options = self.draw, self._options[process.rstrip("+")]
        habits = Habits(
            most_seconds=draw.choice([0.05, 0.4, 1.0, 3.0]), listens=draw.random() < 0.5, is_deaf=draw.random() < 0.3
        )
        if habits.listens and habits.most_seconds > options.drain_seconds:
            # A worker that is slow to let go gives up its session; a moved partition then asks the next one. That
            # ends by luck.
            self.liveness_seconds = max(self.liveness_seconds, 60.0)
        spare, beside = process not in self.ids, self._other(process) if self.world.seed % 4 == _VISITS else None
        worker = GroupWorker(
            process, self.world, self.sink, options, habits, spare=spare, dies=self._die, beside=beside
        )
        self._workers[process] = worker
        self.world.spawn(process, worker.run())

    def unsettled(self, calm: float) -> list[str]:
        """Return the deviations from the settled state."""
        items, keys = self.world.checker.history.items, GroupKeys(group=GROUP)
        sessions = {each: items[keys.member(each)].revision for each in self.ids if keys.member(each) in items}
        if sorted(sessions) != self.ids:
            return [f"members are {sorted(sessions)}"]
        if left := [key for key in items if key.startswith(GroupKeys(group=OTHER).member(""))]:
            return [f"{left} are there, though all have left"]
        able = [each for each in self.ids if keys.drain(each) not in items]
        target = decoded_target(items[keys.target].value) if keys.target in items else None
        if target is None or target.is_paused or not target.digest:
            return [f"the target is {target}"]
        loads = [target.owners.count(each) for each in able]
        if sum(loads) != (self.record.partitions if able else 0) or (able and max(loads) > min(loads) + 1):
            return [f"the target of {able} is {target}"]
        own = {each: self._own(items.get(keys.own(each))) for each in range(self.record.partitions)}
        return [
            wrong
            for partition in range(self.record.partitions)
            for wrong in self._wrong(partition, own, target, sessions, calm)
        ]

    @property
    def has_suspects(self) -> bool:
        """Whether a member serves a partition that others have died of, and could be seen to live."""
        items = self.world.checker.history.items
        owned = [ownership(item.value) for key, item in items.items() if GroupKeys.parsed(key)[1] == "own"]
        return any(own.owner is not None and own.ended for own in owned)

    @staticmethod
    def _own(item: Item | None) -> OwnershipRecord:
        return OwnershipRecord() if item is None else ownership(item.value)

    def _wrong(
        self, partition: int, owned: dict[int, OwnershipRecord], target: Target, sessions: dict[str, int], calm: float
    ) -> Iterator[str]:
        wanted, own = target.owner(partition), owned[partition]
        if wanted is None:
            if own.owner is not None:
                yield f"{partition} belongs to {own}, not to nobody"
        elif (own.owner, own.session) != (wanted, sessions[wanted]):
            yield f"{partition} belongs to {own}, not to {wanted}"
        else:
            token, holder, at = self.sink.accepted.get(f"{GROUP}/{partition}", (None, "", 0.0))
            if token is None or at < calm or token.epoch != own.epoch:
                yield f"{partition} was last written under {token} by {holder}, not under {own}"

    def _drawn(self, member_id: str, throttle: int | None) -> Options:
        draw = self.draw
        is_static = draw.random() < 0.3
        return Options(
            group=GROUP,
            record=self.record,
            member_id=member_id,
            member=MemberRecord(nonce="", grace_seconds=GRACE_SECONDS if is_static else 0.0),
            is_static=is_static,
            ttl_seconds=TTL_SECONDS,
            drain_seconds=draw.choice([0.5, 1.0, 2.0]),
            throttle=throttle,
        )

    def _other(self, process: str) -> Options:
        """Return the options of a process in the other group."""
        return Options(
            group=OTHER,
            record=GroupRecord(partitions=2),
            member_id=process,
            member=MemberRecord(nonce=""),
            ttl_seconds=TTL_SECONDS,
            drain_seconds=0.5,
        )

    async def _come_and_go(self) -> None:
        """Let members leave and be drained."""
        draw, world = self.draw, self.world
        while True:
            await asyncio.sleep(draw.expovariate(1 / self._churn_seconds))
            process, member_id, what = draw.choice(self.processes), draw.choice(self.ids), draw.random()
            if process in world.processes.names and what < 0.4:
                world.trace.say(f"{process} is to leave")
                world.spawn(process, self._workers[process].leave())
            elif process in world.processes.names and what < 0.55:
                world.trace.say(f"{process} asks {member_id} to drain")
                world.spawn(process, self._workers[process].drain(member_id))

    def _die(self, process: str) -> None:
        """Let a partition kill a process that works on it, and let a supervisor start the process again."""
        world = self.world
        if self._poisons and world.checker.history.calm_since is None:
            world.trace.say(f"{process} dies of {POISON}")
            world.kill(process)
            world.loop.call_later(self.draw.uniform(0.2, 1.0), self.start, process, context=outside())


@contextmanager
def watched(trace: Trace) -> Iterator[None]:
    """Count the used rows of the hand-over's table, and keep the logs away from all but the story."""
    rows, levels = handover.TRANSITIONS, {each: each.level for each in (logger, getLogger("apportion.work"))}
    handover.TRANSITIONS = _Rows(trace)
    for each in levels:
        each.setLevel(CRITICAL)
    try:
        yield
    finally:
        handover.TRANSITIONS = rows
        for each, level in levels.items():
            each.setLevel(level)


class _Rows(dict[tuple[Phase, HandOverEvent], tuple[Act | None, Phase]]):
    """The transitions of the hand-over, each counted when it is made."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(handover.TRANSITIONS)
        self._cover = trace.cover

    def get(self, row: tuple[Phase, HandOverEvent], otherwise: Any = None, /) -> Any:
        """See `dict`."""
        if row in self:
            self._cover(row_name(*row))
        return super().get(row, otherwise)


def row_name(phase: Phase, event: HandOverEvent) -> str:
    """Return the name of a row of the hand-over's table among the covered transitions."""
    return f"row {phase.name} {event.name}"
