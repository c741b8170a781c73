# Generated from work/current.py by `python -m generate`; change that file, and generate anew.
"""The running task without an event loop: all that its base has, and the calls that do I/O.

The async twin of this file is `work/current.py`.
"""

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.stores.task_values import Note
from apportion.work.running_task import RunningTask, current


class SyncRunningTask(RunningTask):
    """One attempt of a task, for callers without an event loop; it is not to be called from one."""

    __slots__ = ()

    def progress(self, part: float, text: str = "") -> None:
        """Note how far this task is: a part from 0 to 1, and a text. `ClaimLost` if the claim is no longer ours."""
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part <= 1:
            raise InvalidInput("progress", part, "a number from 0 to 1", "Write task.progress(0.4)")
        note = Note(receipt=self.claim.receipt, progress=float(part), text=text)
        io_thread().wait(self.desk.note(note))


def current_task() -> SyncRunningTask:
    """Return the task that this code runs as; `InvalidInput` outside of a task.

    `InvalidInput` on an event loop too: the calls of the async twin.
    """
    return current(SyncRunningTask)


RunningTask.sync_form = SyncRunningTask
