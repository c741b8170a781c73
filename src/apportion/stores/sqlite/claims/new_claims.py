"""New claims: the ready tasks that a turn claims in an SQLite file, within the limits of their queues.

Promises: a constant number of statements for any number of claims. In each step of a statement, Python releases the
interpreter's lock, and another thread may take that lock.
"""

import json
from collections.abc import Callable, Sequence

from apportion.stores.keys.ledger import KEYED_RANK
from apportion.stores.sqlite import task_statements as sql
from apportion.stores.sqlite.claims import lanes
from apportion.stores.sqlite.claims.ready_task import ReadyTask
from apportion.stores.sqlite.connection import Connection, value_of
from apportion.stores.task_records import QueueControl, tokens
from apportion.stores.task_values import LANES, MOST_EXPIRED, Claim, Worker

_SHARE_OF_THE_OLDEST = 8


def take(connection: Connection, positions: Sequence[int], session: int) -> None:
    """Give the tasks at these positions to a session, each as its next attempt."""
    connection.execute(sql.TAKE, (session, json.dumps(positions)))


class NewClaims:
    """The new claims of one turn, within the limits of its queues; `expire` cancels an expired task."""

    def __init__(
        self,
        connection: Connection,
        worker: Worker,
        controls: dict[str, QueueControl],
        now: int,
        expire: Callable[[str], None],
    ) -> None:
        self._connection, self._worker, self._now = connection, worker, now
        self._controls, self._cancel, self._expired = controls, expire, 0
        self.is_cut: bool = False
        self._is_clear = value_of(connection, sql.HAS_SUSPECT, (worker.session,)) is None
        self._left = {queue: self._allowed(queue) for queue in controls}

    def claimed(self, most: int, place: int) -> list[Claim]:
        """Claim ready tasks, those of the first lane first; each eighth place goes to the oldest head of all."""
        taken: list[Claim] = []
        is_more = True
        while is_more and len(taken) < most:
            heads, is_more = self._chosen(most - len(taken), place + len(taken))
            take(self._connection, [head.position for head in heads], self._worker.session)
            taken += [head.claimed(self._worker.session, self._now) for head in heads]
        self._spend(taken)
        return taken

    def _chosen(self, most: int, place: int) -> tuple[list[ReadyTask], bool]:
        """Return ready tasks, and whether to look again.

        The choice ends at an expired task. When that task is cancelled, another task may be ready in its place.
        """
        heads, chosen = [found for lane in LANES if (found := self._heads(lane, most))], list[ReadyTask]()
        if len(heads) == 1 and self._may_take_all(heads[0]):  # the usual case, without a choice per task
            return heads[0][: -most - 1 : -1], False
        while len(chosen) < most and (head := self._next(heads, place + len(chosen))) is not None:
            if head.expires is not None and head.expires <= self._now:
                return chosen, self._expire(head)
            self._left[head.queue] -= 1
            self._is_clear = self._is_clear and not (head.deaths_of or head.crashes)
            chosen.append(head)
        return chosen, False

    def _expire(self, head: ReadyTask) -> bool:
        """Cancel an expired task; return False if this turn has cancelled enough of them."""
        if self._expired == MOST_EXPIRED:
            self.is_cut = True
            return False
        self._expired += 1
        self._cancel(head.id)
        return True

    def _heads(self, lane: int, most: int) -> list[ReadyTask]:
        """Return the oldest ready tasks of a lane, the oldest one last; more than enough of them."""
        found = self._ready(sql.READY, lane, most)
        if any(head.deaths >= sql.MANY_DEATHS for head in found.values()):
            found |= self._ready(sql.READY_OF_NO_DEATHS, lane, most)
        if lane == KEYED_RANK and self._worker.lanes:
            for queue in self._controls:
                found |= lanes.first_tasks(self._connection, self._worker, queue, most)
        return [found[position] for position in sorted(found, reverse=True)]

    def _ready(self, statement: str, lane: int, most: int) -> dict[int, ReadyTask]:
        return {
            row[0]: ReadyTask._make(row)
            for queue in self._controls
            for row in self._connection.execute(statement, (queue, lane, most)).fetchall()
        }

    def _next(self, lanes: list[list[ReadyTask]], place: int) -> ReadyTask | None:
        heads = []
        for lane in lanes:
            head = next((each for each in reversed(lane) if self._may_take(each)), None)
            if head is not None:
                heads.append((lane, head))
        if not heads:
            return None
        is_turn_of_the_oldest = (place + 1) % _SHARE_OF_THE_OLDEST == 0
        lane, head = min(heads, key=lambda each: each[1].ready_at) if is_turn_of_the_oldest else heads[0]
        if lane[-1] is head:  # the usual case, in constant time
            lane.pop()
        else:
            lane.remove(head)
        return head

    def _may_take(self, head: ReadyTask) -> bool:
        return self._left[head.queue] >= 1 and (self._is_clear or head.deaths < sql.MANY_DEATHS)

    def _may_take_all(self, heads: list[ReadyTask]) -> bool:
        is_unlimited = min(self._left.values()) == float("inf")
        return is_unlimited and all(head.expires is None and not head.deaths_of for head in heads)

    def _allowed(self, queue: str) -> float:
        control, allowed = self._controls[queue], float("inf")
        if control.open_claims is not None:
            allowed = control.open_claims - int(value_of(self._connection, sql.COUNT_OPEN, (queue,)))
        return allowed if control.rate is None else min(allowed, tokens(control, self._now))

    def _spend(self, taken: list[Claim]) -> None:
        for queue, control in self._controls.items():
            spent = sum(task.queue == queue for task in taken)
            if control.rate is not None and spent:
                left = tokens(control, self._now) - spent
                self._connection.execute(sql.SPEND, (left, self._now, queue))
