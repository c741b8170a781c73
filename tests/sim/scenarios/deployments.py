"""Deployments of the cron scenario: releases of a program, each with its schedules, and the rules of `cron apply`.

The program keeps the schedules `d0`, `d1`, … in every release, perhaps in another form; `x0` and `x1` come and go. A
process of its own applies each release, and every worker of that moment or of an earlier one goes on firing.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from apportion.sim.facts import TasksChanged
from apportion.sim.invariants.schedules import RowStep, ScheduleInvariant
from apportion.stores.schedules.values import TaskSchedule

DEPLOYER = "deployer"
_COMING_AND_GOING = ("x0", "x1")


class Releases:
    """The releases of a program; `now` are the schedules of the present one, and `make` draws a schedule."""

    def __init__(self, draw: Random, make: Callable[[str], TaskSchedule]) -> None:
        self._draw, self._make = draw, make
        self._kept = [f"d{number}" for number in range(draw.randint(1, 4))]
        self.now: dict[str, TaskSchedule] = {name: self._declared(name) for name in self._kept}

    def next(self) -> None:
        """Release the program anew: some schedules change, some come, some go."""
        kept = {name: self._declared(name) if self._draw.random() < 0.4 else self.now[name] for name in self._kept}
        others = [name for name in _COMING_AND_GOING if self._draw.random() < 0.5]
        self.now = kept | {name: self.now.get(name) or self._declared(name) for name in others}

    def _declared(self, name: str) -> TaskSchedule:
        return replace(self._make(name), is_declared=True)


class DeploymentsKeepSlots(ScheduleInvariant):
    """A release that is applied keeps the last slot and the pause of all that it changes.

    It removes no schedule that every release has, and touches none that was made from data.
    """

    def change(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `ScheduleInvariant`."""
        if self._callers("remove") != {DEPLOYER}:
            return
        for place in before.schedules.keys() - fact.schedules.keys():
            row = before.schedules[place]
            if not row.damage and not row.is_declared:
                self.broken(f"{place} was removed by a release, and was made from data")
            elif not row.damage and row.name not in _COMING_AND_GOING:
                self.broken(f"{place} was removed with its last slot {row.last_slot}, and every release has it")

    def step(self, step: RowStep) -> None:
        """See `ScheduleInvariant`."""
        old, new = step.old, step.new
        if old.version == new.version or self._callers("change") != {DEPLOYER}:
            return
        if not old.is_declared:
            self.broken(f"{step.place} was changed by a release, and was made from data")
        is_alone = not any(self._callers(kind) for kind in ("fire", "trigger", "pause"))
        if is_alone and (old.last_slot, old.is_paused) != (new.last_slot, new.is_paused):
            self.broken(f"a release moved {step.place} from slot {old.last_slot} to {new.last_slot}, or its pause")

    def _callers(self, kind: str) -> set[str]:
        return {call.process for call in self.calls() if call.act is not None and call.act.kind == kind}
