"""Keys: the invariants of tasks with a key: they run in order, one at a time, and none is left behind.

They read the tasks of a store and the tokens of its lanes after each change. They also read the calls that the store
carries out, and the begins and ends of handlers. See `tasks.py` for the invariants of all tasks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from apportion.groups.crash_loops import wait_seconds
from apportion.groups.view.keys import GroupKeys
from apportion.model.epoch import FencingToken
from apportion.sim.facts import Died, RunBegan, TasksChanged, TaskServed
from apportion.sim.invariants.history import History
from apportion.sim.invariants.ownership import ownership
from apportion.sim.invariants.store import Invariant
from apportion.sim.invariants.task_steps import TaskInvariant, TaskStep
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.task_records import OpenTask, QueueControl
from apportion.stores.task_values import NewTask, Receipt, TurnAnswer, Worker

KeyPlace: TypeAlias = tuple[str, str]
GO_ON_SECONDS = 2.0 + 1.0 + 1.0  # a time to live, the back-off of a turn, and a second


class KeyInvariant(TaskInvariant):
    """One promise about tasks with a key. `groups` is the history of the store of the group."""

    @property
    def groups(self) -> History:
        """The history of the store of the group."""
        return self.history.group

    def key_steps(self, before: TasksChanged, fact: TasksChanged) -> Iterator[tuple[KeyPlace, TaskStep]]:
        """Yield the step of each task with a key, with the queue and the key."""
        for step in self.steps(before, fact):
            task = step.after or step.before
            if task is not None and task.new.key is not None:
                yield (task.queue, task.new.key), step

    @staticmethod
    def of_key(tasks: Mapping[str, OpenTask], place: KeyPlace) -> list[OpenTask]:
        """Return the open tasks of a key in their order."""
        found = [task for task in tasks.values() if (task.queue, task.new.key) == place]
        return sorted(found, key=lambda task: task.position)


class OneOfAKey(KeyInvariant):
    """A key has at most one open claim, and at most one run under a session that lives.

    A run begins under a hold of its lane. A planned move of the lane waits for this hold.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._keys: dict[Receipt, KeyPlace] = {}  # of the claims of this life of the store

    def begin(self, _: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._keys = {}

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for place, step in self.key_steps(before, fact):
            if (receipt := step.new_claim) is not None:
                self._keys[receipt] = place
                claimed = [task.id for task in self.of_key(fact.open, place) if task.session is not None]
                if len(claimed) > 1:
                    self.broken(f"the tasks {claimed} of {place} are claimed at once")

    def runbegan(self, fact: RunBegan) -> None:
        """Check that no other run of the key is under way, and that the lane is held."""
        tasks, place = self.history.tasks, self._keys.get(fact.receipt)
        if tasks is None or place is None or fact.receipt.session not in tasks.alive:
            return
        runs = self.history.runs
        for other in runs.values():
            if self._keys.get(other.receipt) == place and other.receipt.session in tasks.alive:
                what = f"run {fact.run} of {fact.receipt} in {fact.process}"
                self.broken(f"{what} begins beside run {other.run} of {other.receipt} of {place} in {other.process}")
        task = tasks.open.get(fact.receipt.task)
        if task is not None and not fact.is_child:
            lane = f"{_group(task.queue)}/{task.new.lane - KEYED_LANES}"
            holds = self.groups.holds
            if not any((each.process, each.resource) == (fact.process, lane) for each in holds.values()):
                self.broken(f"run {fact.run} of {fact.receipt} begins, and {fact.process} does not hold {lane}")


class KeyInOrder(KeyInvariant):
    """The tasks of a key start in the order of their positions, each after the end of all earlier ones.

    A task keeps its position while it is open; a new or a redriven one comes after all that are there.
    """

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for place, step in self.key_steps(before, fact):
            if step.new is None:
                continue
            if step.new_claim is not None:
                first = self.of_key(fact.open, place)[0]
                if first.id != step.id:
                    self.broken(f"task {step.id} of {place} was claimed before {first.id}, which is {first.state}")
            is_kept = step.old is not None and _unnamed(step.old) == _unnamed(step.new)
            if is_kept and step.old is not None and step.old.position != step.new.position:
                self.broken(f"task {step.id} of {place} went from {step.old.position} to {step.new.position}")
            last = max((task.position for task in self.of_key(before.open, place)), default=0)
            if not is_kept and step.new.position <= last:
                self.broken(f"task {step.id} of {place} came to {step.new.position}, before the end at {last}")


class KeyGoesOn(KeyInvariant):
    """Once nothing fails, no key is left behind by workers with a free place.

    Its next task is claimed within a bound: the sum of a time to live, the back-offs of a turn and of its lane, and a
    second. `figure` is the longest wait, without the back-off of the lane.
    """

    figure: float

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._since: dict[KeyPlace, float] = {}  # when a task of the key changed last
        self._workers: dict[int, tuple[str, Worker]] = {}
        self._full_at = 0.0
        self._last_death = 0.0
        self._told: set[KeyPlace] = set()

    def begin(self, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        self._since, self._full_at = {}, fact.at

    def died(self, fact: Died) -> None:
        """Note the end of a process: its lanes move."""
        self._last_death = fact.at
        self._workers = {each: known for each, known in self._workers.items() if known[0] != fact.process}

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for place, _ in self.key_steps(before, fact):
            self._since[place] = fact.at
        if before.alive != fact.alive or before.lanes != fact.lanes or before.controls != fact.controls:
            self._full_at = fact.at  # lanes move, or the queue was at rest
        opened = Counter(task.session for task in before.open.values())
        if any(opened[session] >= worker.concurrency for session, (_, worker) in self._workers.items()):
            self._full_at = fact.at

    def taskserved(self, fact: TaskServed) -> None:
        """Look at all keys after each turn; workers look for work once a second."""
        call, tasks = self.history.task_calls[fact.call], self.history.tasks
        calm = self.history.calm_since
        if call.worker is None or tasks is None:
            return
        if call.want:
            self._workers[call.worker.session] = call.process, call.worker
        if calm is not None and isinstance(fact.answer, TurnAnswer):
            heads: dict[KeyPlace, OpenTask] = {}
            for task in tasks.open.values():
                place = task.queue, task.new.key or ""
                if task.new.key is not None and (place not in heads or task.position < heads[place].position):
                    heads[place] = task
            for place, head in heads.items():
                self._look_at(place, head, tasks, fact.at, calm)

    def _look_at(self, place: KeyPlace, head: OpenTask, tasks: TasksChanged, at: float, calm: float) -> None:
        control = tasks.controls.get(head.queue, QueueControl())
        is_limited = control.is_paused or control.open_claims is not None or control.rate is not None
        is_worked_on = head.session is not None and head.session in tasks.alive
        if is_limited or (head.is_blocking and head.new.on_dead == "block") or is_worked_on or head.new.key is None:
            return
        waits = at - max(calm, self._full_at, self._last_death, self._since.get(place, 0.0))
        if head.due is not None:
            waits = min(waits, (tasks.now_ms - head.due) / 1_000)
        waits -= self._back_off_seconds(head)
        self.figure = max(self.figure, waits)
        if waits > GO_ON_SECONDS and place not in self._told:
            self._told.add(place)
            self.broken(f"task {head.id} of {place} is {head.state}, and its key has waited for {waits:.3f} s")

    def _back_off_seconds(self, head: OpenTask) -> float:
        """Return how long the lane of a task may wait for its next owner, after the deaths of its owners."""
        partition = head.new.lane - KEYED_LANES
        item = self.groups.item(GroupKeys(group=_group(head.queue)).own(partition))
        return 0.0 if item is None else wait_seconds(len(ownership(item.value).ended) + 1)


class LaneTokensGrow(KeyInvariant):
    """The token of a lane grows, and nobody claims in a lane under an older token, or under none."""

    def look(self, before: TasksChanged, fact: TasksChanged) -> None:
        """See `TaskInvariant`."""
        for place, record in before.lanes.items():
            now = fact.lanes.get(place)
            if now is None or not _follows(now.token, record.token):
                self.broken(f"lane {place} went from {record.token} to {None if now is None else now.token}")

    def taskserved(self, fact: TaskServed) -> None:
        """Check the lanes of new claims."""
        worker, tasks = self.history.task_calls[fact.call].worker, self.history.tasks
        if not isinstance(fact.answer, TurnAnswer) or worker is None or tasks is None:
            return
        shown = {(each.queue, each.lane): each.token for each in worker.lanes}
        for claim in fact.answer.claims:
            place = claim.queue, claim.lane
            record, token = tasks.lanes.get(place), shown.get(place)
            seen = None if record is None else record.token
            is_noted = token is not None and seen is not None and _follows(token, seen) and _follows(seen, token)
            if claim.key is not None and not is_noted:
                self.broken(f"{claim.receipt} was claimed in lane {place} under {token}, where {seen} is noted")


def _unnamed(task: OpenTask) -> NewTask:
    """Return the call of a task without its unique name. A dead task that blocks its key gives its name up."""
    return replace(task.new, unique=None)


def _group(queue: str) -> str:
    return f"work.{queue.rpartition('/')[2]}"


def _follows(token: FencingToken, earlier: FencingToken) -> bool:
    place, before = (token.incarnation, token.epoch), (earlier.incarnation, earlier.epoch)
    return place > before or (place == before and token.holder == earlier.holder)


INVARIANTS: tuple[type[Invariant], ...] = (OneOfAKey, KeyInOrder, KeyGoesOn, LaneTokensGrow)
