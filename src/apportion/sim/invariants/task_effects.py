"""Task effects: the invariant of effects under a key, which the idempotency log guards.

A handler tells each effect at the moment at which it happens, and the store tells the steps that it carries out in its
log. A log that went back knows nothing of later steps, so each life of the store is judged by itself.
"""

from collections.abc import Callable

from apportion.sim.facts import EffectHappened, TaskCall, TasksChanged, TaskServed
from apportion.sim.invariants.history import History
from apportion.sim.invariants.task_steps import TaskInvariant
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_records import receipt_of
from apportion.stores.task_values import Receipt


class OnceIsOnce(TaskInvariant):
    """An effect under a key happens once, and before the log calls it done.

    It may happen again under `on_unknown="run"`. Then the claim that began it has ended, and the log does not tell
    whether the effect happened.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._happened: dict[str, list[Receipt]] = {}
        self._begun: dict[str, Receipt] = {}  # the newest begin of each key that the store has carried out
        self._known: set[tuple[str, Receipt]] = set()  # all begins of this life of the store
        self._former: set[tuple[str, Receipt]] = set()  # those of earlier lives; later lives may give equal receipts
        self._done: set[str] = set()

    def begin(self, _: TasksChanged) -> None:
        """See `TaskInvariant`. The log of this life may know nothing of the effects of an earlier one."""
        self._former |= self._known
        self._begun, self._known, self._done = {}, set(), set()

    def taskserved(self, fact: TaskServed) -> None:
        """Check a step in the log that the store has carried out."""
        call = self.history.task_calls[fact.call]
        if call.once is not None and isinstance(fact.answer, OnceState):
            if call.once.value is None:
                self._look_at_begin(call.once, fact.answer)
            elif fact.answer.found == "done":
                self._look_at_end(call, call.once)

    def effecthappened(self, fact: EffectHappened) -> None:
        """Check an effect against those before it; one that was begun in another life of the store is not judged."""
        key, earlier = fact.key, self._happened.setdefault(fact.key, [])
        begun = self._known - self._former
        counted = [each for each in earlier if (key, each) in begun]
        if (key, fact.receipt) in begun:
            if fact.receipt in counted:
                self.broken(f"the effect {key} happened again within {fact.receipt}")
            elif counted and not fact.may_repeat:
                self.broken(f"the effect {key} happened under {counted[0]}, and again under {fact.receipt}")
        earlier.append(fact.receipt)

    def _look_at_begin(self, step: OnceStep, answer: OnceState) -> None:
        if answer.found != "begun":
            return
        before, tasks = self._begun.get(step.key), self.history.tasks
        if step.key in self._done:
            self.broken(f"{step.receipt} began the effect {step.key}, which was done before")
        if before is not None and before != step.receipt and tasks is not None and before.session in tasks.alive:
            task = tasks.open.get(before.task)
            if task is not None and receipt_of(task) == before:
                self.broken(f"{step.receipt} began the effect {step.key}, while {before} does it")
        self._begun[step.key] = step.receipt
        self._known.add((step.key, step.receipt))

    def _look_at_end(self, call: TaskCall, step: OnceStep) -> None:
        if step.receipt not in self._happened.get(step.key, ()):
            self.broken(f"{call.process} called the effect {step.key} done before it happened")
        self._done.add(step.key)


INVARIANTS = (OnceIsOnce,)
