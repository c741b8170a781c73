"""Task queues: the invariants of unique names, limits, due times and pauses of queues; see `tasks.py`."""

from collections import Counter
from collections.abc import Callable, Mapping

from apportion.sim.facts import TasksChanged, TaskServed
from apportion.sim.invariants.history import History
from apportion.sim.invariants.task_steps import TaskInvariant
from apportion.stores.task_control import Hasten, SetLimit
from apportion.stores.task_records import OpenTask, QueueControl


class UniqueWhileOpen(TaskInvariant):
    """A queue has at most one open task of a unique name. Two kinds of tasks do not count: claimed ones that gave up
    their name, and dead ones that block their key.

    A call under the name of a finished task makes a new task.
    """

    def taskserved(self, fact: TaskServed) -> None:
        """Look at the tasks that an enqueue has found under the names of its new tasks."""
        tasks, added = self.history.tasks, self.history.task_calls[fact.call].tasks
        if tasks is None or not added or not isinstance(fact.answer, tuple):
            return
        known = tasks.open.keys() | self.history.damaged
        for new, (task, is_created) in zip(added, fact.answer, strict=True):
            if not is_created and task != new.id and task not in known:
                self.broken(f"{new.unique} stands for task {task}, which is not open")

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        if not fact.changed:
            return
        opened = [task for task in fact.open.values() if not (task.is_replaced or task.is_blocking)]
        named = [task for task in opened if task.new.unique is not None]
        names = Counter((task.queue, task.new.unique) for task in named)
        if double := sorted(f"{name} of {queue}" for (queue, name), count in names.items() if count > 1):
            self.broken(f"{double} stand for more than one open task")
        for step in self.steps(before, fact):
            is_tried_again = step.left_claim is not None and bool({"retry", "crashed"} & self.fates(step.left_claim))
            if step.new is not None and step.new.is_replaced and is_tried_again:
                self.broken(f"task {step.id} gave up its name, failed, and waits for another try")


class LimitHolds(TaskInvariant):
    """New claims of a queue stay within its limits: the most open claims, and the most claims per time."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._claims: dict[str, list[int]] = {}

    def begin(self, _: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._claims = {}

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for queue, control in fact.controls.items():
            if any(command.queue == queue for command in self.commands(SetLimit)):
                self._claims.pop(queue, None)  # a new rate begins with a whole period
            fresh = self._fresh(before, fact, queue)
            if fresh:
                self._look_at(queue, control, before.open, fact, fresh)

    def _fresh(self, before: TasksChanged, fact: TasksChanged, queue: str) -> int:
        """Return the number of claims that are no retakes; a released task that is claimed again is a fresh claim."""
        claimed = [step for step in self.steps(before, fact) if step.new_claim and step.new and step.new.queue == queue]
        return sum(step.left_claim is None or bool(self.fates(step.left_claim)) for step in claimed)

    def _look_at(
        self, queue: str, control: QueueControl, before: Mapping[str, OpenTask], fact: TasksChanged, fresh: int
    ) -> None:
        if control.open_claims is not None:
            count, had = _claimed(fact.open, queue), _claimed(before, queue)
            if count > max(control.open_claims, had):
                self.broken(f"{queue} has {count} open claims, and may have {control.open_claims}")
        if control.rate is not None:
            times = self._claims.setdefault(queue, [])
            times += [fact.now_ms] * fresh
            lately = [each for each in times if fact.now_ms - control.per_ms < each <= fact.now_ms]
            self._claims[queue] = lately
            if len(lately) > 2 * control.rate:  # the bucket may be full, and fills once in this time
                self.broken(f"{queue} had {len(lately)} claims within {control.per_ms} ms, and may have {control.rate}")


def _claimed(tasks: Mapping[str, OpenTask], queue: str) -> int:
    return sum(task.session is not None and task.queue == queue for task in tasks.values())


class NotBeforeDue(TaskInvariant):
    """A delayed task waits until it is due, by the clock of the store, unless an operator hastens it."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        hastened = {task for hasten in self.commands(Hasten) for task in hasten.tasks}
        for step in self.steps(before, fact):
            old, new = step.old, step.new
            if old is None or new is None or old.due is None or new.new != old.new:
                continue
            if (new.due is None or new.session is not None) and old.due > fact.now_ms and step.id not in hastened:
                self.broken(f"task {step.id} is {new.state} {old.due - fact.now_ms} ms before it is due")


class PausedIsNotClaimed(TaskInvariant):
    """No task of a paused queue is claimed."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        paused = {queue for queue, control in fact.controls.items() if control.is_paused}
        for step in self.steps(before, fact) if paused else ():
            if step.new_claim is not None and step.new is not None and step.new.queue in paused:
                self.broken(f"task {step.id} of the paused queue {step.new.queue} was claimed")
