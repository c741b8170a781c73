"""Tasks: the invariants of tasks, of their claims and of the work on them, whatever fails.

They read only facts: the tasks of a store after each change, the calls that it carries out, and when handlers begin
and end. So the simulated world and tests of real processes can be checked by the same lines. Invariants about queues
are in `task_queues.py`, those about time and about processes in `task_service.py`.
"""

from collections.abc import Callable

from apportion.sim.facts import RunBegan, TasksChanged, TaskServed
from apportion.sim.invariants.history import History
from apportion.sim.invariants.store import DRIFT_RATIO, Invariant
from apportion.sim.invariants.task_queues import LimitHolds, NotBeforeDue, PausedIsNotClaimed, UniqueWhileOpen
from apportion.sim.invariants.task_service import NothingLeftBehind, PoisonIsBounded, RetakenInTime
from apportion.sim.invariants.task_steps import TaskInvariant, TaskStep
from apportion.stores.task_control import Cancel, Purge, Redrive
from apportion.stores.task_records import OpenTask, receipt_of
from apportion.stores.task_values import KEPT_MS, Receipt, TurnAnswer

_STATES = {
    "done": ("gone", "done"),
    "dead": ("dead",),
    "retry": ("ready", "delayed", "claimed", "cancelled"),
    "released": ("ready", "delayed", "claimed", "cancelled"),
    "crashed": ("ready", "delayed", "claimed", "dead", "cancelled"),
    "cancelled": ("cancelled",),
}


class AcknowledgedTasksStay(TaskInvariant):
    """A task that the store has taken stays until it is settled, cancelled, expired or purged; its outcome is kept."""

    def taskserved(self, fact: TaskServed) -> None:
        """Check the answer to an enqueue."""
        tasks = self.history.tasks
        if tasks is None or not isinstance(fact.answer, tuple):
            return
        damaged = self.history.damaged
        for task, _ in fact.answer if self.history.task_calls[fact.call].tasks else ():
            if task not in tasks.open and task not in tasks.ended and task not in damaged:
                self.broken(f"task {task} was acknowledged, and is not there")

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """Check tasks that have left, and tasks that have ended while nobody had a claim."""
        purged = {purge.queue for purge in self.commands(Purge)}
        for step in self.steps(before, fact):
            task = step.before
            if task is None or step.new is not None or task.queue in purged:
                continue
            if step.old is not None and step.old.session is None:
                if not self._may_end(step.old, step, fact):
                    self.broken(f"task {step.id}, which nobody had claimed, is {step.state}")
            elif step.old is None and step.state == "gone" and not self._is_old(step, fact):
                self.broken(f"the outcome of task {step.id} is gone")

    def _may_end(self, task: OpenTask, step: TaskStep, fact: TasksChanged) -> bool:
        is_cancelled = any(task.id in cancel.tasks for cancel in self.commands(Cancel))
        if task.new.schedule is not None:  # a firing may cancel the tasks of older slots
            is_cancelled |= any(call.act is not None and call.act.kind == "fire" for call in self.calls())
        expires = task.new.expires_at
        is_expired = expires is not None and expires <= fact.now_ms and bool(self.turns())
        return step.state == "cancelled" and (is_cancelled or is_expired)

    @staticmethod
    def _is_old(step: TaskStep, fact: TasksChanged) -> bool:
        end = step.old_end
        return end is not None and end.state != "dead" and end.at + KEPT_MS <= fact.now_ms


class AttemptsGrow(TaskInvariant):
    """Every claim of a task is its next attempt, and nothing else changes the attempt."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._highest: dict[str, int] = {}

    def begin(self, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._highest = {each: task.attempt for each, task in fact.open.items()}
        self._highest |= {each: end.task.attempt for each, end in fact.ended.items()}

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for step in self.steps(before, fact):
            if step.after is not None:
                highest, claims = self._highest.get(step.id, 0), int(step.new_claim is not None)
                if step.after.attempt != highest + claims:
                    self.broken(f"task {step.id} has attempt {step.after.attempt} after {highest}, {step.state}")
                self._highest[step.id] = max(highest, step.after.attempt)


class OneClaimATask(TaskInvariant):
    """A claim is given out once, to the session that asked; one run begins under it, while no other is under way."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._given: set[Receipt] = set()
        self._run: set[Receipt] = set()

    def begin(self, _: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._given, self._run = set(), set()

    def taskserved(self, fact: TaskServed) -> None:
        """Check the claims of a turn."""
        worker, tasks = self.history.task_calls[fact.call].worker, self.history.tasks
        if not isinstance(fact.answer, TurnAnswer) or worker is None or tasks is None:
            return
        damaged = self.history.damaged
        for claim in (each for each in fact.answer.claims if each.task not in damaged):
            receipt, task = claim.receipt, tasks.open.get(claim.task)
            if receipt in self._given or receipt.session != worker.session:
                self.broken(f"{worker.session} got {receipt}, which was given before, or is another's")
            if task is None or receipt_of(task) != receipt:
                self.broken(f"{receipt} was given, and is no open claim")
            self._given.add(receipt)

    def runbegan(self, fact: RunBegan) -> None:
        """Check that no other run of a live session is under way. Claims of earlier lives of the store do not count."""
        tasks = self.history.tasks
        if tasks is None or fact.receipt.session not in tasks.alive or fact.receipt not in self._given:
            return
        if fact.receipt in self._run:
            self.broken(f"a second run of {fact.receipt} begins in {fact.process}")
        self._run.add(fact.receipt)
        runs = self.history.runs
        for other in runs.values():
            receipt = other.receipt
            if receipt.task == fact.receipt.task and receipt in self._given and receipt.session in tasks.alive:
                self.broken(f"run {fact.run} of {receipt.task} begins beside run {other.run} in {other.process}")


class SettledByReceipt(TaskInvariant):
    """An open claim ends by a settlement or a completion under its receipt, or by a retake; no other receipt counts."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._spent: dict[Receipt, float] = {}

    def begin(self, _: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._spent = {}

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for step in self.steps(before, fact):
            receipt = step.left_claim
            if receipt is None:
                continue
            self._spent[receipt] = fact.at
            fates = self.fates(receipt)
            is_retaken = receipt.session not in fact.alive and bool(self.turns())
            is_asked = any(step.state in _STATES[fate] for fate in fates)
            if not (is_asked or is_retaken or self.is_effect(before, fact, step.id)):
                self.broken(f"the claim {receipt} became {step.state}, where the calls ask for {sorted(fates)}")

    def taskserved(self, fact: TaskServed) -> None:
        """Check that the receipt of a claim that had ended before was refused."""
        call = self.history.task_calls[fact.call]
        if isinstance(fact.answer, TurnAnswer):
            for receipt in {each.receipt for each in call.settlements} - set(fact.answer.refused):
                if self._spent.get(receipt, call.at) < call.at:
                    self.broken(f"{receipt} counted, though its claim had ended before")


class CompletedOnce(TaskInvariant):
    """A task is done at most once, and does not come back."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._done: set[str] = set()

    def begin(self, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._done = {each for each, end in fact.ended.items() if end.state == "done"}

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for step in self.steps(before, fact):
            if step.id in self._done and (step.new is not None or step.old is not None):
                self.broken(f"task {step.id} is {step.state}, though it was done before")
            if step.state in ("gone", "done") and step.old is not None:
                self._done.add(step.id)


class RetakenOnlyAfterTheEnd(TaskInvariant):
    """A claim goes to another session only after its lease has ended, and no lease ends while it is renewed in time."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for step in self.steps(before, fact):
            receipt, deaths = step.left_claim, step.after.deaths_of if step.after is not None else ()
            if receipt is None or (self.fates(receipt) and receipt.session not in deaths):
                continue
            if receipt.session in fact.alive and not self.is_effect(before, fact, step.id):
                self.broken(f"{receipt} was taken from a session that lives")
        for session in sorted(before.alive - fact.alive):
            self._look_at_end(session, fact.at)

    def _look_at_end(self, session: int, at: float) -> None:
        tenure = self.history.tenure(session)
        if tenure is None or tenure.revoked or tenure.ended:
            return
        lived = at - tenure.renewed_at
        if lived < tenure.ttl_seconds * (1 - DRIFT_RATIO):
            self.broken(f"lease {session} of {tenure.ttl_seconds} s ended {lived:.3f} s after it was renewed")


class NoOrphanClaim(TaskInvariant):
    """No claim begins under an ended session. The session of an open claim lives, or a worker's row names it."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for step in self.steps(before, fact):
            if (receipt := step.new_claim) is not None and receipt.session not in fact.alive:
                self.broken(f"{receipt} began, though its session has ended")
        for task in fact.open.values():
            if task.session is not None and task.session not in fact.alive and task.session not in fact.workers:
                self.broken(f"nobody will take {receipt_of(task)} over: no row names its session")


class OnlyFailuresAndDeathsCount(TaskInvariant):
    """Failures grow by failed runs, deaths by ended sessions, crashes by ended children, and by nothing else."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for step in self.steps(before, fact):
            old, new = step.before, step.after
            if old is None or new is None or new.new != old.new:
                continue
            settlements = [] if step.left_claim is None else self.settlements(step.left_claim)
            fates, has_run = {each.fate for each in settlements}, any(each.has_run for each in settlements)
            may_reset = "retry" in fates or has_run or bool(self.commands(Redrive))
            failed = int(bool({"retry", "dead"} & fates))
            if step.state == "cancelled" and (new.failures, new.crashes) == (old.failures, old.crashes):
                continue  # the run of a cancelled task counts for nothing
            if new.failures != old.failures + failed and not (self.commands(Redrive) and not new.failures):
                self.broken(f"failures of task {step.id} went from {old.failures} to {new.failures} by {sorted(fates)}")
            if new.crashes != old.crashes + ("crashed" in fates) and not (may_reset and not new.crashes):
                self.broken(f"crashes of task {step.id} went from {old.crashes} to {new.crashes} by {sorted(fates)}")
            if not may_reset:
                self._look_at_deaths(step, old, new, fact)

    def _look_at_deaths(self, step: TaskStep, old: OpenTask, new: OpenTask, fact: TasksChanged) -> None:
        lived = {session for call in self.calls() if call.worker for session in call.worker.former}
        added, struck = set(new.deaths_of) - set(old.deaths_of), set(old.deaths_of) - set(new.deaths_of)
        if added - {old.session} or added & fact.alive or struck - lived:
            self.broken(f"deaths of task {step.id} went from {old.deaths_of} to {new.deaths_of}")
        is_taken = step.left_claim is not None and not self.fates(receipt_of(old))
        if is_taken and not added and step.after is not None and old.session not in lived:
            self.broken(f"the end of {old.session} was not counted for task {step.id}")


class EffectWithCompletion(TaskInvariant):
    """The effect of a completing transaction and the completion of its task are one commit, once."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        damaged = self.history.damaged
        for task, count in fact.effects.items():
            if count == before.effects.get(task, 0) or task in damaged:
                continue
            if count > 1:
                self.broken(f"the effect of task {task} is there {count} times")
            if task not in before.open or task in fact.open:
                self.broken(f"the effect of task {task} came without its completion")


INVARIANTS: tuple[type[Invariant], ...] = (
    AcknowledgedTasksStay,
    AttemptsGrow,
    OneClaimATask,
    SettledByReceipt,
    CompletedOnce,
    RetakenOnlyAfterTheEnd,
    RetakenInTime,
    NothingLeftBehind,
    NoOrphanClaim,
    PoisonIsBounded,
    OnlyFailuresAndDeathsCount,
    EffectWithCompletion,
    UniqueWhileOpen,
    LimitHolds,
    NotBeforeDue,
    PausedIsNotClaimed,
)
