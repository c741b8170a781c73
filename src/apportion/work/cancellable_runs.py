"""Cancellable runs: the runs under way on the event loop of a worker, and the cancellation of each.

Promises: a run is cancelled only once, so that nothing interrupts its cleanup. If the run completes in spite of that,
its end counts. A run that is cancelled on request is settled as cancelled. A run whose session has ended, or whose
worker leaves, is not settled here. If the program itself cancels a run, as `asyncio.run` does at its end, the task is
given back without a failure.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apportion.stores.task_values import Receipt, Settlement

_AGAIN_MS = 5_000


class CancellableRuns:
    """The runs under way, by their receipts. `settle` receives the end of a cancelled run."""

    def __init__(self, settle: Callable[[Settlement], None]) -> None:
        self._settle = settle
        self._runs: dict[Receipt, asyncio.Task[Any]] = {}
        self._stopped: dict[Receipt, bool] = {}  # runs that were cancelled here, and whether on request

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Receipt]:
        return iter(tuple(self._runs))

    def take(self, receipt: Receipt, run: "asyncio.Task[Any]") -> None:
        """Add a run."""
        self._runs[receipt] = run

    def stop(self, receipts: Iterable[Receipt], *, is_on_request: bool = False) -> None:
        """Cancel the runs of these claims; a claim without a run is left out."""
        for receipt in receipts:
            if receipt in self._runs:
                if receipt not in self._stopped:
                    self._runs[receipt].cancel()
                self._stopped[receipt] = is_on_request

    async def emptied(self, timeout_seconds: float) -> None:
        """Cancel all runs, and wait for their ends for at most `timeout_seconds`."""
        self.stop(self)
        if self._runs:
            await asyncio.wait(self._runs.values(), timeout=timeout_seconds)

    def free(self, receipt: Receipt, run: "asyncio.Task[Any]") -> bool:
        """Remove a run that has ended; return whether its end counts, so that the caller settles it."""
        del self._runs[receipt]
        is_on_request, is_cancelled = self._stopped.pop(receipt, None), run.cancelled()
        if is_on_request is None and not (is_cancelled and run.cancelling()):
            return True
        if not is_cancelled and run.exception() is None:
            return True
        if is_on_request:
            self._settle(Settlement(receipt=receipt, fate="cancelled", reason="cancelled on request"))
        elif is_on_request is None:
            reason = "the program cancelled its run"
            self._settle(Settlement(receipt=receipt, fate="released", reason=reason, delay_ms=_AGAIN_MS))
        return False
