# Generated from work/current.py by `python -m generate`; change that file, and generate anew.
"""The running task without an event loop: all that its base has, and the calls that do I/O.

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
        """Note how far this task is: a part from 0 to 1, and a text. `ClaimLost` if the claim is no longer ours."""
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part <= 1:
            raise InvalidInput("progress", part, "a number from 0 to 1", "Write task.progress(0.4)")
        self.require_time()
        note = Note(receipt=self.claim.receipt, progress=float(part), text=text)
        io_thread().wait(self.desk.note(note))

    def once(self, key: str, function: Callable[..., Any], *args: object, on_unknown: OnUnknown = "run") -> Any:  # noqa: ANN401 - the function's
        """Call a function once for a key of this queue, and return its value; a later run gets the kept value.

        A note is on the disk before the call, and its value (JSON, at most 64 KiB) after it. While another run or
        another part of this one calls it, this call waits. `on_unknown` is for a call that was begun and did not end:

        - `"run"`: call it again. For effects that may happen twice, or that the other side recognises by the key.
        - `"fail"`: end the task as dead, for an operator to look (`GiveUp`).
        - a function of the same arguments, which asks the other side: it returns the value of a call that happened,
          None for one that did not.

        An entry is kept for 7 days, and as long as its task is open. `ClaimLost` or `LeaseLost` if the claim is no
        longer ours.
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
    """Return the task that this code runs as; `InvalidInput` outside of a task.

    `InvalidInput` on an event loop too: the calls of the async twin.
    """
    return current(SyncRunningTask)


RunningTask.sync_form = SyncRunningTask
