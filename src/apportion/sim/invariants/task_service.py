"""Task service: the invariants about time and about processes: when a task is served, and which process may die.

See `tasks.py` for the others. A promise about time begins once nothing fails any more.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from apportion.sim.facts import Died, Renewed, RunBegan, RunEnded, TaskCall, TasksChanged, TaskServed
from apportion.sim.invariants.history import History
from apportion.sim.invariants.task_steps import TaskInvariant
from apportion.stores.lanes.values import OwnedLane
from apportion.stores.task_records import OpenTask, QueueControl, receipt_of
from apportion.stores.task_values import TurnAnswer, Worker

RETAKE_SECONDS = 1.0
_DRIFT = 1.01


class RetakenInTime(TaskInvariant):
    """Once nothing fails, a claim of a dead process is claimed anew or put back within a time to live and a second.

    This holds only if a worker has a free place. `figure` is the longest time that a claim stood without a process.
    """

    figure: float

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._sessions: dict[int, str] = {}
        self._workers: dict[int, Worker] = {}
        self._since: dict[int, float] = {}  # when the process or the lease of a session has ended
        self._free_since: dict[int, float] = {}
        self._renewed: dict[int, float] = {}
        self._last_death = 0.0
        self._told: set[tuple[str, int]] = set()

    def begin(self, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._since, self._free_since = dict.fromkeys(fact.workers - fact.alive, fact.at), {}

    def taskcall(self, fact: TaskCall) -> None:
        """Learn which process has which session."""
        if fact.want and fact.worker is not None:
            self._sessions[fact.worker.session] = fact.process
            self._workers[fact.worker.session] = fact.worker

    def renewed(self, fact: Renewed) -> None:
        """Note a renewal; one that was sent before its process ended may arrive later."""
        self._renewed |= dict.fromkeys(fact.alive, fact.at)

    def died(self, fact: Died) -> None:
        """Note the end of a process. It may have watched the leases of others, so all bounds begin now."""
        self._last_death = fact.at
        for session in [session for session, process in self._sessions.items() if process == fact.process]:
            self._since.setdefault(session, fact.at)
            del self._sessions[session]

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for session in before.alive - fact.alive:
            self._since.setdefault(session, fact.at)
        self._note_room(fact)
        calm = self.history.calm_since
        for task in before.open.values():
            since = self._since.get(task.session or 0)
            is_keyed = task.new.key is not None  # it waits for the owner of its lane, see `KeyGoesOn`
            if since is None or is_keyed or before.controls.get(task.queue, QueueControl()).is_paused:
                continue
            self.figure = max(self.figure, fact.at - since)
            if calm is not None:
                self._look_at(task, max(since, calm, self._last_death), fact)

    def _look_at(self, task: OpenTask, since: float, fact: TasksChanged) -> None:
        session = task.session or 0
        tenure = self.history.tenure(session)
        ttl_seconds = 2.0 if tenure is None else tenure.ttl_seconds
        free = min(self._free_since.values(), default=fact.at)
        ends = max(since, self._renewed.get(session, 0.0)) + ttl_seconds * _DRIFT
        late = fact.at - max(ends, free) - RETAKE_SECONDS
        if late > 0 and (task.id, session) not in self._told:
            self._told.add((task.id, session))
            self.broken(f"task {task.id} stayed claimed by {session}, which is gone, for {late:.3f} s too long")

    def _note_room(self, fact: TasksChanged) -> None:
        opened = Counter(task.session for task in fact.open.values())
        for session, worker in self._workers.items():
            is_free = session in self._sessions and session in fact.alive and opened[session] < worker.concurrency
            if not is_free:
                self._free_since.pop(session, None)
            else:
                self._free_since.setdefault(session, fact.at)


class NothingLeftBehind(TaskInvariant):
    """A worker with a free place leaves no task that it may claim: no ready task, and no claim of a dead process."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._taken = 0  # claims of dead processes that turns took or put back, and that were not counted yet

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        left = [step.left_claim for step in self.steps(before, fact) if step.left_claim is not None]
        self._taken += sum(receipt.session not in fact.alive for receipt in left)

    def taskserved(self, fact: TaskServed) -> None:
        """Look at the tasks after a turn that got less than it wanted."""
        call, tasks = self.history.task_calls[fact.call], self.history.tasks
        if not isinstance(fact.answer, TurnAnswer) or call.worker is None or tasks is None or not call.want:
            return
        claims, worker, fenced = fact.answer.claims, call.worker, fact.answer.fenced
        taken, self._taken = self._taken + len(self.history.damaged), 0  # the turn may have taken the damaged tasks
        if taken < (call.want + 1) // 2:
            for task in self._served(tasks, worker, fenced):
                if task.session is not None and task.session not in tasks.alive:
                    self.broken(
                        f"{worker.session} wanted {call.want}, got {len(claims)}, and left {task.id} of a dead session"
                    )
        if len(claims) < call.want:
            is_clear = not any(task.session == worker.session and task.is_suspect for task in tasks.open.values())
            claimed = {(task.queue, task.new.key) for task in tasks.open.values() if task.session is not None}
            for task in self._served(tasks, worker, fenced):
                if task.new.key is not None and ((task.queue, task.new.key) in claimed or self._waits(task, tasks)):
                    continue
                is_allowed = self._is_unlimited(tasks, task) and (is_clear or len(task.deaths_of) < 2)
                if task.state == "ready" and is_allowed:
                    self.broken(f"{worker.session} wanted {call.want}, got {len(claims)}, and left {task.id} behind")

    @staticmethod
    def _served(tasks: TasksChanged, worker: Worker, fenced: Collection[OwnedLane]) -> Iterator[OpenTask]:
        lanes = {(each.queue, each.lane) for each in worker.lanes if each not in fenced}
        for task in tasks.open.values():
            if task.new.key is not None and (task.queue, task.new.lane) not in lanes:
                continue
            if task.queue in worker.queues and not tasks.controls.get(task.queue, QueueControl()).is_paused:
                yield task

    @staticmethod
    def _waits(task: OpenTask, tasks: TasksChanged) -> bool:
        """Whether an earlier task of the key is open."""
        earlier = [each for each in tasks.open.values() if each.position < task.position]
        return any((each.queue, each.new.key) == (task.queue, task.new.key) for each in earlier)

    @staticmethod
    def _is_unlimited(tasks: TasksChanged, task: OpenTask) -> bool:
        control = tasks.controls.get(task.queue, QueueControl())
        return control.open_claims is None and control.rate is None


class PoisonIsBounded(TaskInvariant):
    """A task that has ended a process runs in a child.

    It ends at most one worker. It ends at most two children, and two more per counted death.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._killed: Counter[tuple[str, bool]] = Counter()
        self._deaths: Counter[str] = Counter()

    def begin(self, _: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._killed.clear()
        self._deaths.clear()

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for step in self.steps(before, fact):
            old, new = step.before, step.after
            if old is not None and new is not None:
                self._deaths[step.id] += len(set(new.deaths_of) - set(old.deaths_of))
                is_back = step.old_end is not None and step.new is not None  # redriven, or revived by a lapse
                if is_back or new.new != old.new:  # the unique name was used again for a new call
                    self._killed[step.id, True] = self._killed[step.id, False] = 0

    def runbegan(self, fact: RunBegan) -> None:
        """Check the place of a suspect."""
        if fact.is_suspect and not fact.is_child:
            self.broken(f"{fact.receipt.task} is a suspect, and runs in the worker {fact.process}")

    def runended(self, fact: RunEnded) -> None:
        """Count the processes that a task has ended."""
        runs = self.history.runs
        run = runs.get(fact.run)
        if run is None or not fact.kills:
            return
        task = run.receipt.task
        tasks = self.history.tasks
        known = None if tasks is None else tasks.open.get(task)
        if known is None or receipt_of(known) != run.receipt:
            return  # the store has lost this claim, and cannot know of this death
        self._killed[task, run.is_child] += 1
        if self._killed[task, False] > 1:
            self.broken(f"task {task} has ended {self._killed[task, False]} workers")
        if self._killed[task, True] > 2 * (1 + self._deaths[task]):
            self.broken(f"task {task} has ended {self._killed[task, True]} children")
