"""The running task on any event loop: all that its base has, and the calls that do I/O.

The sync twin of this file is `sync/current.py`.
"""

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.stores.task_values import Note
from apportion.work.running_task import RunningTask, current


class AsyncRunningTask(RunningTask):
    """One attempt of a task, for callers on any event loop."""

    __slots__ = ()

    async def progress(self, part: float, text: str = "") -> None:
        """Note how far this task is: a part from 0 to 1, and a text. `ClaimLost` if the claim is no longer ours."""
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part <= 1:
            raise InvalidInput("progress", part, "a number from 0 to 1", "Write await task.progress(0.4)")
        note = Note(receipt=self.claim.receipt, progress=float(part), text=text)
        await io_thread().hop(self.desk.note(note))


def current_task() -> AsyncRunningTask:
    """Return the task that this code runs as; `InvalidInput` outside of a task.

    In a plain task function, the calls are those of `apportion.sync.current_task()`: none is awaited.
    """
    return current(AsyncRunningTask)


RunningTask.async_form = AsyncRunningTask
