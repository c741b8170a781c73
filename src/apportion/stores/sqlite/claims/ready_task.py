"""Ready task: a task that a turn may claim, with the columns that a claim needs.

Refuses: rows that no release writes; a `ValueError` or `TypeError` says so.
"""

from typing import NamedTuple

from apportion.stores.task_values import MOST_NUMBER, Claim, Receipt


class ReadyTask(NamedTuple):
    """A row of `READY`, in the order of its columns."""

    position: int
    ready_at: int
    expires: int | None
    deaths_of: str
    id: str
    attempt: int
    queue: str
    lane: int
    name: str
    codec: str
    arguments: bytes
    failures: int
    crashes: int
    enqueued: int
    trace: str
    slot: int | None
    key: str | None

    @property
    def deaths(self) -> int:
        """The number of sessions that ended while they ran the task; `ValueError` for a list that cannot be read."""
        return sum(int(each) >= 0 for each in self.deaths_of.split(",")) if self.deaths_of else 0

    def claimed(self, session: int, now: int) -> Claim:
        """Return the claim of a session; `ValueError` or `TypeError` for a column of another type or range."""
        (_, ready_at, _, _, task, attempt, queue, lane, *call, failures, crashes, enqueued, trace, slot, key) = self
        name, codec, arguments = call
        is_counted = 0 <= attempt <= MOST_NUMBER and 0 <= failures <= MOST_NUMBER
        is_text = isinstance(name, str) and isinstance(codec, str) and isinstance(trace, str)
        if not (is_counted and is_text and 0 <= crashes <= MOST_NUMBER and isinstance(arguments, bytes)):
            raise ValueError(f"invalid attempt {attempt} or another invalid column of task {task}")
        receipt, deaths, waited_ms = Receipt(task, attempt + 1, session), self.deaths, max(0, now - ready_at)
        # Keyword arguments would take half of the time of a claim, so the values are in the order of the fields.
        first = (receipt, queue, lane, name, codec, arguments, failures, deaths, crashes)
        return Claim._make((*first, enqueued, trace, slot, key, None, waited_ms, False))
