# Generated from work/current.py by `python -m generate`; change that file, and generate anew.
"""The running task for programs without an event loop: its base, and the calls that do I/O.

The async twin of this file is `work/current.py`.
"""

from collections.abc import Callable
from typing import Any

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.stores.task_values import Note
from apportion.work.effects.effect_turn import EffectTurn
from apportion.work.effects.once import Effect, OnUnknown, called_here
from apportion.work.running_task import RunningTask, current


class SyncRunningTask(RunningTask):
    """One attempt of a task, for callers without an event loop; it is not to be called from one."""

    __slots__ = ()

    def progress(self, part: float, text: str = "") -> None:
        """Note the progress of this task: a part from 0 to 1, and a text.

        `ClaimLost` or `LeaseLost` if this worker has lost the claim.
        """
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part <= 1:
            raise InvalidInput("progress", part, "a number from 0 to 1", "Write task.progress(0.4)")
        if not isinstance(text, str):
            raise InvalidInput("text", text, "a str", 'Write task.progress(0.4, "half")')
        self.require_time()
        note = Note(receipt=self.claim.receipt, progress=float(part), text=text)
        io_thread().wait(self.desk.note(note))

    def once(self, key: str, function: Callable[..., Any], *args: object, on_unknown: OnUnknown = "run") -> Any:  # noqa: ANN401 - the function's
        """Call a function once for a key of this queue, and return its value; a later run gets the kept value.

        A note of the call is on the disk before the function begins, and its value (JSON, at most 64 KiB) afterwards.
        While another run, or another part of this run, calls a function for this key, this call waits. If an earlier
        run began the function and its end is unknown, `on_unknown` decides:

        - `"run"`: call it again. Use it if the effect may happen twice, or if the system that it changes
          recognises the key.
        - `"fail"`: end the task as dead, so that an operator can look at it (`GiveUp`).
        - a function of the same arguments, which asks that system. It returns the value if the effect happened, and
          None if not.

        The entry of a key is kept for 7 days, and as long as its task is open. `ClaimLost` or `LeaseLost` if this
        worker has lost the claim.
        """
        self.require_time()
        effect, value = Effect(self.claim, key, function, on_unknown), None
        turn = EffectTurn(self.desk, self.claim.receipt, key)
        first = turn.begun(lambda: self.desk.once(effect.begin()))
        state = io_thread().wait(first, undo=turn.end)
        with turn:
            if state.found == "unknown":
                value = called_here(effect.check(), *args)
                state = io_thread().wait(self.desk.once(effect.begin(instead_of=state.receipt)))
            if state.found == "unknown":
                raise effect.contended()
            if state.found == "begun":
                value = called_here(function, *args) if value is None else value
                state = io_thread().wait(self.desk.once(effect.end(value)))
        return effect.value(state)


def current_task() -> SyncRunningTask:
    """Return the task that runs this code; `InvalidInput` outside of a task.

    `InvalidInput` on an event loop too: use the async twin there.
    """
    return current(SyncRunningTask)


RunningTask.sync_form = SyncRunningTask
