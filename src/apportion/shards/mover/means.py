"""Means of a mover: all that the courses of its moves share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from apportion.errors import InvalidInput
from apportion.runtime.clock import Clock
from apportion.shards.mover.accepted_shards import AcceptedShards
from apportion.shards.mover.acts import MoveActs
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.events import MoveEvent, MoveObserver
from apportion.shards.mover.limits import MoveLimits
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites
from apportion.shards.mover.stop_points import Reached


@dataclass(frozen=True, slots=True, kw_only=True)
class MoverMeans:
    """The means of one mover. `check` raises once the mover has to end."""

    book: MoveBook
    acts: MoveActs
    sites: ShardSites
    accepted: AcceptedShards
    clock: Clock
    check: Callable[[], None]
    reached: Reached
    observer: MoveObserver | None
    limits: MoveLimits

    def tell(self, entry: MoveEntry, step: str, *, copied: int = 0, rows: int = 0, lag: int = 0, why: str = "") -> None:
        """Tell the observer of a step that has ended. `InvalidInput` if it raises SystemExit.

        SystemExit would end the I/O thread, and each caller would wait for ever.
        """
        if self.observer is None:
            return
        event = MoveEvent.of(entry, step, at=self.clock.elapsed(), copied=copied, rows=rows, lag=lag, why=why)
        try:
            self.observer(event)
        except SystemExit as error:
            hint = "Let it set a flag, and end the program in its own thread."
            raise InvalidInput("observer", "one that raises SystemExit", "a function that returns", hint) from error


class KeptError:
    """A block that keeps an error of a function of the user, to be raised later."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> bool:
        self.error = error if isinstance(error, Exception) else None
        return self.error is not None
