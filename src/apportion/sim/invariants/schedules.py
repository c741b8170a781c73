"""Schedules: the invariants of slots and of their tasks, whatever node, clock or operator comes between.

They read the schedules of a store after each change, with their histories, and the calls that it carries out. The slots
of a rule come from `slot_walk`, which shares no line with the shipped calendar. A row that the vandal has damaged is
not looked at until an act of an operator writes it anew. If a node with other zone data computed a slot, the slot is
not compared with the slots of this machine. Everything else is compared.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from apportion.sim.facts import ClockStepped, ScheduleAct, SchedulePlace, TasksChanged
from apportion.sim.invariants.history import History
from apportion.sim.invariants.store import Invariant
from apportion.sim.invariants.task_steps import TaskInvariant
from apportion.sim.slot_walk import SlotWalk
from apportion.stores.schedules.values import Firing, SlotMark, TaskSchedule
from apportion.stores.task_records import OpenTask
from apportion.stores.task_values import NewTask
from apportion.work.cron.zone_data import zone_data_version

_LATE_MS, _DAY_MS, _MOST_MISSED = 60_000, 24 * 3_600_000, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStep:
    """A schedule before and after a change, with its open tasks before, and the tasks and the marks that came."""

    place: SchedulePlace
    old: TaskSchedule
    new: TaskSchedule
    tasks: tuple[NewTask, ...]
    marks: tuple[SlotMark, ...]
    opened: tuple[OpenTask, ...]
    now_ms: int

    @property
    def is_moved(self) -> bool:
        """Whether the last slot is another one."""
        return self.old.last_slot != self.new.last_slot


class ScheduleInvariant(TaskInvariant):
    """One promise about schedules. A subclass has a method `step` or others."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self.damaged: set[SchedulePlace] = set()

    def begin(self, fact: TasksChanged) -> None:
        """See `TaskInvariant`. A copy of the store may hold damage from before."""
        self.damaged = {place for place in self.damaged if place in fact.schedules}

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for act in self.acts("damage"):
            self.damaged |= {(row.queue, row.name) for row in act.schedules}
        self.damaged &= fact.schedules.keys()
        self.change(before, fact)
        for step in self.row_steps(before, fact):
            if step.old.version != step.new.version:
                self.damaged.discard(step.place)
            if step.place not in self.damaged and not self.acts("damage"):
                self.step(step)

    def change(self, before: TasksChanged, fact: TasksChanged) -> None:
        """Check a change of all schedules and tasks."""

    def step(self, step: RowStep) -> None:
        """Check the change of one schedule that was there before."""

    def row_steps(self, before: TasksChanged, fact: TasksChanged) -> Iterator[RowStep]:
        """Yield the step of each schedule that is not as before, or that got a task."""
        added = self.added(before, fact)
        for place, new in fact.schedules.items():
            old, known = before.schedules.get(place), set(before.marks.get(place, ()))
            tasks = tuple(task for task in added if (task.queue, task.schedule) == place)
            if old is not None and (old != new or tasks):
                marks = tuple(mark for mark in fact.marks.get(place, ()) if mark not in known)
                opened = [each for each in before.open.values() if (each.queue, each.new.schedule) == place]
                yield RowStep(
                    place=place,
                    old=old,
                    new=new,
                    tasks=tasks,
                    marks=marks,
                    opened=tuple(opened),
                    now_ms=fact.now_ms,
                )

    def added(self, before: TasksChanged, fact: TasksChanged) -> list[NewTask]:
        """Return the tasks of schedules that are new."""
        steps = [step for step in self.steps(before, fact) if step.before is None and step.after is not None]
        return [step.after.new for step in steps if step.after is not None and step.after.new.schedule is not None]

    def acts(self, kind: str) -> list[ScheduleAct]:
        """Return the acts of a kind that the store carries out now."""
        return [call.act for call in self.calls() if call.act is not None and call.act.kind == kind]

    def firings(self, step: RowStep) -> list[Firing]:
        """Return the firings of triggers that the store carries out now, and that could have made a step."""
        found = [act.firing for act in self.acts("trigger") if act.firing is not None]
        return [each for each in found if ((each.queue, each.name), each.slot) == (step.place, step.new.last_slot)]


class OneTriggerASlot(ScheduleInvariant):
    """A slot of a schedule has one task, ever; a schedule that was removed and made again is another one."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._slots: dict[SchedulePlace, dict[int | None, str]] = {}

    def begin(self, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        super().begin(fact)
        self._slots = {}
        for task in [*(each.new for each in fact.open.values()), *(end.task.new for end in fact.ended.values())]:
            if task.schedule is not None:
                self._slots.setdefault((task.queue, task.schedule), {})[task.slot] = task.id

    def change(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `ScheduleInvariant`."""
        for place in before.schedules.keys() - fact.schedules.keys():
            self._slots.pop(place, None)
        for task in self.added(before, fact):
            place = task.queue, task.schedule or ""
            first = self._slots.setdefault(place, {}).setdefault(task.slot, task.id)
            if first != task.id and place not in self.damaged:
                self.broken(f"slot {task.slot} of {place} has the tasks {first} and {task.id}")


class SlotsGrow(ScheduleInvariant):
    """The last slot of a schedule only grows, by a firing that knows its version and last slot; no older slot fires."""

    def step(self, step: RowStep) -> None:
        """See `ScheduleInvariant`."""
        old, new = step.old, step.new
        if new.last_slot < old.last_slot or new.next_slot <= new.last_slot:
            self.broken(f"{step.place} went from slot {old.last_slot} to {new.last_slot}, the next is {new.next_slot}")
        if wrong := [task.slot for task in step.tasks if not old.last_slot < (task.slot or 0) <= new.last_slot]:
            self.broken(f"{step.place} fired {wrong} between {old.last_slot} and {new.last_slot}")
        if not self.acts("fire") and (step.is_moved or step.tasks):
            known = (old.version, old.last_slot)
            if not any((each.version, each.last_slot) == known for each in self.firings(step)):
                self.broken(f"{step.place} was triggered by a caller that did not know {known}")


class TriggerWithTask(ScheduleInvariant):
    """The last slot, the history and the tasks of a firing change in one commit; the tasks make the call of the row."""

    def change(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `ScheduleInvariant`."""
        for task in self.added(before, fact):
            place = task.queue, task.schedule or ""
            old, new = before.schedules.get(place), fact.schedules.get(place)
            if old is None or new is None or old.last_slot == new.last_slot:
                self.broken(f"a task of {place} came without a firing")

    def step(self, step: RowStep) -> None:
        """See `ScheduleInvariant`."""
        fired = {(mark.slot, mark.task) for mark in step.marks if mark.mark == "fired"}
        if fired != {(task.slot, task.id) for task in step.tasks}:
            self.broken(f"{step.place} has {len(step.tasks)} new tasks, and says that {sorted(fired)} were fired")
        if any((task.name, task.arguments) != (step.old.task, step.old.arguments) for task in step.tasks):
            self.broken(f"a task of {step.place} does not make the call of its schedule")


class MissedByPolicy(ScheduleInvariant):
    """A firing gives a task to the slots that its policies name, and to no other. A pause and its end fire nothing.

    The policies are programmed a second time here, from the documentation of `Queue.cron`.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._paused: dict[SchedulePlace, int] = {}  # the earliest time since the pause began

    def begin(self, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        super().begin(fact)
        self._paused = {place: fact.now_ms for place, row in fact.schedules.items() if row.is_paused}

    def clockstepped(self, fact: ClockStepped) -> None:
        """Note that the time went back."""
        self._paused = {place: min(since, fact.now_ms) for place, since in self._paused.items()}

    def step(self, step: RowStep) -> None:
        """See `ScheduleInvariant`."""
        since = self._paused.get(step.place)
        if step.new.is_paused:
            self._paused.setdefault(step.place, step.now_ms)
        else:
            self._paused.pop(step.place, None)
        if not step.is_moved:
            return
        slots = tuple(sorted(task.slot or 0 for task in step.tasks))
        firings = self.firings(step)
        if any(not each.resumes and slots == (each.slot,) for each in firings):
            return
        if any(each.resumes for each in firings) and not slots:
            if since is not None and step.new.last_slot < since:
                self.broken(f"{step.place} resumed, and its slots from {step.new.last_slot} to {since} may still fire")
        elif step.old.is_paused:
            self.broken(f"{step.place} is paused, and went to slot {step.new.last_slot}")
        elif is_comparable(step.new) and slots != (expected := _expected(step)):
            self.broken(f"{step.place} fired {slots} after {step.old.last_slot}, its policies say {expected}")


def _expected(step: RowStep) -> tuple[int, ...]:
    """Return the slots that a firing gives a task, by the policies of the schedule."""
    wanted, row = _wanted(step.old, step.now_ms), step.old
    if row.overlap == "skip":
        return () if step.opened else wanted[:1]
    if row.overlap == "queue-one":
        is_waiting = any(task.session is None for task in step.opened)
        return () if is_waiting else wanted[: 1 if step.opened else 2]
    return wanted[-1:] if row.overlap == "cancel-old" else wanted


def _wanted(row: TaskSchedule, now: int) -> tuple[int, ...]:
    """Return the slots of a due schedule that its policy for missed slots fires, oldest first."""
    newest = newest_slot(row, now)
    if row.missed == "skip":
        return (newest,) if now - newest <= _LATE_MS else ()
    if row.missed == "last":
        return (newest,)
    later = slots_between(row, max(row.next_slot, now - _DAY_MS), now)
    return (*((row.next_slot,) if row.next_slot >= now - _DAY_MS else ()), *later)[-_MOST_MISSED:]


class EverySlotFires(ScheduleInvariant):
    """The next slot is the first one of the rule after the last slot, or after the firing if that is later."""

    def change(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `ScheduleInvariant`. Look at schedules that are new."""
        for place in fact.schedules.keys() - before.schedules.keys():
            self._look_at(fact.schedules[place], fact.schedules[place].last_slot)

    def step(self, step: RowStep) -> None:
        """See `ScheduleInvariant`."""
        firings, new = self.firings(step), step.new
        placed = [row.last_slot for act in self.acts("change") for row in act.schedules if row.name == new.name]
        if step.old.version != new.version:
            # An unchanged next slot may be due already, so it is not compared.
            if new.next_slot != step.old.next_slot or _slots_of(new) != _slots_of(step.old):
                self._look_at(new, *placed)
        elif new.next_slot == step.old.next_slot and new.last_slot < new.next_slot:
            return  # an earlier slot was triggered by hand, or the schedule was paused
        elif firings:
            self._look_at(new, *(each.slot for each in firings))
        else:
            self._look_at(new, max(new.last_slot, step.now_ms))

    def _look_at(self, row: TaskSchedule, *passed: int) -> None:
        if is_comparable(row) and row.next_slot not in [next_slot(row, each) for each in passed]:
            self.broken(f"{row.queue}/{row.name} passed {passed}, and its next slot is {row.next_slot}")


def _slots_of(row: TaskSchedule) -> tuple[str, ...]:
    """Return the fields of a schedule that decide its slots."""
    return row.rule, row.zone, row.gap, row.fold


def is_comparable(row: TaskSchedule) -> bool:
    """Whether a schedule was evaluated by the zone data of this machine, and has a rule that the walk reads."""
    return row.tzdata == zone_data_version() and is_readable(row)


def is_readable(row: TaskSchedule) -> bool:
    """Whether a schedule has a rule that the walk reads."""
    return _period(row) is not None or _walk(row).is_readable


def next_slot(row: TaskSchedule, after: int) -> int:
    """Return the first slot of a schedule after a time."""
    period = _period(row)
    return _walk(row).next(after) if period is None else (after // period + 1) * period


def newest_slot(row: TaskSchedule, now: int) -> int:
    """Return the newest slot of a due schedule: its stored next slot, or a later one of its rule."""
    period = _period(row)
    if period is not None:
        return max(row.next_slot, now // period * period)
    return _walk(row).newest(now, after=row.next_slot) or row.next_slot


def slots_between(row: TaskSchedule, after: int, until: int) -> tuple[int, ...]:
    """Return the slots of a schedule after a time and up to another."""
    period = _period(row)
    if period is None:
        return tuple(_walk(row).between(after, until))
    return tuple(range((after // period + 1) * period, until + 1, period))


def _walk(row: TaskSchedule) -> SlotWalk:
    return SlotWalk(row.rule, row.zone, row.gap, row.fold)


def _period(row: TaskSchedule) -> int | None:
    return int(row.rule.removeprefix("every ").removesuffix("ms")) if row.rule.startswith("every ") else None


INVARIANTS: tuple[type[Invariant], ...] = (
    OneTriggerASlot,
    SlotsGrow,
    TriggerWithTask,
    MissedByPolicy,
    EverySlotFires,
)
