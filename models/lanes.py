"""Lanes: two workers and one lane of keyed tasks, whose group and whose tasks are in two stores.

Each store ends leases on its own. The target of the lane flips. News, turns and settlements come late; replies are
lost; a process goes on past its deadline without knowing it. Runs fail, a transaction commits its task late, and the
task store may go back to its first content. The shipped code decides: `HandOver`, `Holdings`, `LaneHolds`,
`TaskLedger`.

A state is a tuple of small numbers: group, tasks, faults left, late messages, then one number per worker.
"""

from collections.abc import Iterator, Sequence

from apportion.groups.view.records import OwnershipRecord
from models.lane_parts import LaneBounds, LaneWorker, TaskContent
from models.lane_tasks import Late, TaskMove, commits, first_content, lands, task_moves
from models.lane_worker import GroupMove, group_moves
from models.parts import IDS, Numbers, Store
from models.step import Step

State = tuple[int, ...]
FIRST = 4  # where the numbers of the workers begin in a state
_NONE: frozenset[int] = frozenset()


class Lanes:
    """Two workers at the tasks of one lane, within bounds."""

    def __init__(self, bounds: LaneBounds) -> None:
        sessions = tuple(range(1, len(IDS) + 1))
        self._first = first_content(bounds.keys)
        self.groups = Numbers(Store(OwnershipRecord(), 0, sessions, IDS[0]))
        self.tasks = Numbers(self._first)
        self.faults = Numbers(bounds)
        self.lates: Numbers[frozenset[int]] = Numbers(_NONE)
        self.messages: Numbers[Late | None] = Numbers(None)
        self.workers = Numbers(LaneWorker(1, 1))
        self.initial: State = (0, 0, 0, 0, *(self.workers(LaneWorker(each, each)) for each in sessions))
        self._group_moves: dict[tuple[int, int, int], list[tuple[GroupMove, int, int]]] = {}
        self._task_moves: dict[tuple[int, int, int], list[tuple[TaskMove, int, int, frozenset[int]]]] = {}
        self._landed: dict[tuple[int, int], tuple[int, str]] = {}
        self._beside: dict[tuple[int, ...], str] = {}
        self._spent: dict[tuple[int, str], int] = {}

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Yield all that may happen next."""
        group, tasks, left, late, *workers = state
        for slot, number in enumerate(workers):
            yield from self._of_group(state, slot, number)
            yield from self._of_tasks(state, slot, number)
        for message in self.lates.of[late]:
            after, broken = self._lands(message, tasks)
            waiting = self.lates(self.lates.of[late] - {message})
            yield Step("a late message lands", -1, (group, after, left, waiting, *workers), True, broken)
        content = self.tasks.of[tasks]
        if content.hidden:
            yield Step("a transaction commits", -1, (group, self.tasks(commits(content)), left, late, *workers))
        yield from self._faults(state)

    def is_goal(self, state: State) -> bool:
        """Whether every task is done."""
        content = self.tasks.of[state[1]]
        return not content.tasks and not content.hidden

    def highest(self, states: Sequence[State]) -> int:
        """Return the highest epoch that was granted."""
        return max(self.groups.of[each].record.epoch for each in {state[0] for state in states})

    def _of_group(self, state: State, slot: int, number: int) -> Iterator[Step[State]]:
        group, tasks, left, late, *workers = state
        key = (slot, number, group)
        if key not in self._group_moves:
            moves = group_moves(slot, self.workers.of[number], self.groups.of[group])
            self._group_moves[key] = [
                (each._replace(kind=f"{IDS[slot]} {each.kind}"), self.workers(each.worker), self.groups(each.store))
                for each in moves
            ]
        for move, worker, store in self._group_moves[key]:
            after = self._without(left, move.cost) if move.cost else left
            if after >= 0:
                workers[slot] = worker
                yield Step(move.kind, slot, (store, tasks, after, late, *workers), move.is_fault, move.broken)

    def _of_tasks(self, state: State, slot: int, number: int) -> Iterator[Step[State]]:
        group, tasks, left, late, *workers = state
        key = (slot, number, tasks)
        if key not in self._task_moves:
            self._task_moves[key] = [
                (
                    each._replace(kind=f"{IDS[slot]} {each.kind}"),
                    self.workers(each.worker),
                    self.tasks(each.store),
                    frozenset(map(self.messages, each.sent)),
                )
                for each in task_moves(slot, self.workers.of[number], self.tasks.of[tasks])
            ]
        for move, worker, store, sent in self._task_moves[key]:
            after = self._without(left, move.cost) if move.cost else left
            if after >= 0:
                workers[slot] = worker
                waiting = self.lates(self.lates.of[late] | sent) if sent else late
                broken = move.broken or self._overlap(store, *workers)
                yield Step(move.kind, slot, (group, store, after, waiting, *workers), bool(move.cost), broken)

    def _faults(self, state: State) -> Iterator[Step[State]]:
        group, tasks, left, *rest = state
        if (after := self._without(left, "flips")) >= 0:
            store = self.groups.of[group]
            flipped = self.groups(store._replace(target=IDS[1 - IDS.index(store.target)]))
            yield Step("the target flips", -1, (flipped, tasks, after, *rest), True)
        if (after := self._without(left, "restores")) >= 0:
            sessions = tuple(-abs(each) for each in self.tasks.of[tasks].sessions)
            restored = self.tasks(self._first._replace(sessions=sessions))
            yield Step("the task store is restored", -1, (group, restored, after, *rest), True)

    def _lands(self, message: int, tasks: int) -> tuple[int, str]:
        key = (message, tasks)
        if key not in self._landed:
            late = self.messages.of[message]
            assert late is not None
            store, broken = lands(late, self.tasks.of[tasks])
            self._landed[key] = (self.tasks(store), broken)
        return self._landed[key]

    def _without(self, left: int, fault: str) -> int:
        """Return the faults that are left after one more; -1 if there is none of them left."""
        key = (left, fault)
        if key not in self._spent:
            bounds = self.faults.of[left]
            count = getattr(bounds, fault)
            self._spent[key] = self.faults(bounds._replace(**{fault: count - 1})) if count else -1
        return self._spent[key]

    def _overlap(self, tasks: int, *workers: int) -> str:
        """Return the broken promise if two workers run tasks of one key, each in a session that lives."""
        key = (tasks, *workers)
        if key not in self._beside:
            self._beside[key] = _overlap(self.tasks.of[tasks], [self.workers.of[each] for each in workers])
        return self._beside[key]


def _overlap(store: TaskContent, workers: Sequence[LaneWorker]) -> str:
    of_keys = [
        {run.key for run in worker.runs if run.fate is None and run.receipt.session in store.alive}
        for worker in workers
    ]
    return "NoOverlap: two workers run tasks of one key at once" if set.intersection(*of_keys) else ""
