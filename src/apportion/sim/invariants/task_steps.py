"""Task steps: the change of one task between two looks at a store, with its possible causes; for invariants of tasks.

A store carries out calls one after another, but a look comes only after a step of the world. So the causes of a change
are the calls that the store carries out at that moment. An invariant asks whether one of them could have made it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from apportion.sim.facts import TaskCall, TasksChanged
from apportion.sim.invariants.store import Invariant
from apportion.stores.task_control import Command
from apportion.stores.task_records import EndedTask, OpenTask, receipt_of
from apportion.stores.task_values import Fate, Receipt, Settlement

AnyCommand = TypeVar("AnyCommand", bound=Command)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStep:
    """A task before and after a change; `old` and `new` are its open rows, `old_end` and `new_end` its outcomes."""

    id: str
    old: OpenTask | None
    new: OpenTask | None
    old_end: EndedTask | None
    new_end: EndedTask | None

    @property
    def before(self) -> OpenTask | None:
        """The row of the task before, open or ended."""
        return self.old if self.old_end is None else self.old_end.task

    @property
    def after(self) -> OpenTask | None:
        """The row of the task afterwards, open or ended."""
        return self.new if self.new_end is None else self.new_end.task

    @property
    def left_claim(self) -> Receipt | None:
        """The receipt of the claim that is no longer open."""
        if self.old is None or self.old.session is None:
            return None
        receipt = receipt_of(self.old)
        return None if self.new is not None and receipt_of(self.new) == receipt else receipt

    @property
    def new_claim(self) -> Receipt | None:
        """The receipt of the claim that was made."""
        if self.new is None or self.new.session is None:
            return None
        receipt = receipt_of(self.new)
        return None if self.old is not None and receipt_of(self.old) == receipt else receipt

    @property
    def state(self) -> str:
        """The state of the task afterwards, "gone" if the store knows it no more."""
        return self.new.state if self.new is not None else self.new_end.state if self.new_end is not None else "gone"


class TaskInvariant(Invariant):
    """One promise about tasks. A subclass has a method `look`, or others that are named after facts."""

    def taskschanged(self, fact: TasksChanged) -> None:
        """Check a change; with another life of the store, begin anew."""
        before = self.history.tasks
        if fact.is_first or before is None:
            self.begin(fact)
        else:
            self.look(before, fact)

    def begin(self, _: TasksChanged, /) -> None:
        """Take the tasks with which a life of the store begins."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """Check a change."""

    def steps(self, before: TasksChanged, fact: TasksChanged) -> Iterator[TaskStep]:
        """Yield the step of each sound task that is not as before."""
        damaged = self.history.damaged
        for each in fact.changed if not damaged else sorted({*fact.changed} - damaged):
            yield TaskStep(
                id=each,
                old=before.open.get(each),
                new=fact.open.get(each),
                old_end=before.ended.get(each),
                new_end=fact.ended.get(each),
            )

    def calls(self) -> list[TaskCall]:
        """Return the calls that the store carries out now."""
        calls = self.history.task_calls
        return list(calls.values())

    def turns(self) -> list[TaskCall]:
        """Return the turns that want claims now."""
        return [call for call in self.calls() if call.want]

    def commands(self, kind: type[AnyCommand]) -> list[AnyCommand]:
        """Return the commands of a kind that the store carries out now."""
        return [call.command for call in self.calls() if isinstance(call.command, kind)]

    def fates(self, receipt: Receipt) -> set[Fate]:
        """Return the fates that settlements under a receipt ask for now."""
        return {each.fate for each in self.settlements(receipt)}

    def settlements(self, receipt: Receipt) -> list[Settlement]:
        """Return the settlements under a receipt that the store carries out now."""
        return [each for call in self.calls() for each in call.settlements if each.receipt == receipt]

    @staticmethod
    def is_effect(before: TasksChanged, fact: TasksChanged, task: str) -> bool:
        """Whether a handler has written an effect for a task in this change."""
        return fact.effects.get(task, 0) > before.effects.get(task, 0)
