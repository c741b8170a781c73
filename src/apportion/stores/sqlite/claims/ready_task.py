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
        """The number of sessions that ended under the task; `ValueError` for a list that cannot be read."""
        return sum(int(each) >= 0 for each in self.deaths_of.split(",")) if self.deaths_of else 0

    def claimed(self, session: int, now: int) -> Claim:
        """Return the claim of a session; `ValueError` or `TypeError` for a column of another type or range."""
        is_counted = 0 <= self.attempt <= MOST_NUMBER and 0 <= self.failures <= MOST_NUMBER
        is_text = isinstance(self.name, str) and isinstance(self.codec, str) and isinstance(self.trace, str)
        if not (is_counted and is_text and 0 <= self.crashes <= MOST_NUMBER and isinstance(self.arguments, bytes)):
            raise ValueError(f"attempt {self.attempt} of task {self.id}, or another column")
        return Claim(
            receipt=Receipt(task=self.id, attempt=self.attempt + 1, session=session),
            queue=self.queue,
            lane=self.lane,
            name=self.name,
            codec=self.codec,
            arguments=self.arguments,
            failures=self.failures,
            deaths=self.deaths,
            crashes=self.crashes,
            enqueued=self.enqueued,
            trace=self.trace,
            slot=self.slot,
            key=self.key,
            waited_ms=max(0, now - self.ready_at),
        )
