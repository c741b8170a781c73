"""The running task for programs on any event loop: its base, and the calls that do I/O.

The sync twin of this file is `sync/current.py`.
"""

from collections.abc import Callable
from typing import Any

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.stores.task_values import Note
from apportion.work.effects.effect_turn import EffectTurn
from apportion.work.effects.once import Effect, OnUnknown, called_async
from apportion.work.running_task import RunningTask, current


class AsyncRunningTask(RunningTask):
    """One attempt of a task, for callers on any event loop."""

    __slots__ = ()

    async def progress(self, part: float, text: str = "") -> None:
        """Note the progress of this task: a part from 0 to 1, and a text.

        `ClaimLost` or `LeaseLost` if this worker has lost the claim.
        """
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part <= 1:
            raise InvalidInput("progress", part, "a number from 0 to 1", "Write await task.progress(0.4)")
        if not isinstance(text, str):
            raise InvalidInput("text", text, "a str", 'Write await task.progress(0.4, "half")')
        self.require_time()
        note = Note(receipt=self.claim.receipt, progress=float(part), text=text)
        await io_thread().hop(self.desk.note(note))

    async def once(self, key: str, function: Callable[..., Any], *args: object, on_unknown: OnUnknown = "run") -> Any:  # noqa: ANN401 - the function's
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
        state = await io_thread().hop(first, undo=turn.end)
        with turn:
            if state.found == "unknown":
                value = await called_async(effect.check(), *args)
                state = await io_thread().hop(self.desk.once(effect.begin(instead_of=state.receipt)))
            if state.found == "unknown":
                raise effect.contended()
            if state.found == "begun":
                value = await called_async(function, *args) if value is None else value
                state = await io_thread().hop(self.desk.once(effect.end(value)))
        return effect.value(state)


def current_task() -> AsyncRunningTask:
    """Return the task that runs this code; `InvalidInput` outside of a task.

    In a plain task function, the calls are those of `apportion.sync.current_task()`, which need no `await`.
    """
    return current(AsyncRunningTask)


RunningTask.async_form = AsyncRunningTask
