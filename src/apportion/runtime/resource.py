"""Resource: an object that is open on the I/O thread for the time of a block, from any event loop or from none.

Promises: at any cancellation or interrupt of the caller, the resource is closed completely, on the I/O thread. The
caller learns of the cancellation at once. A block that is already open refuses a second entry with `InvalidInput`,
before anything is opened.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Generic, TypeVar

from apportion.errors import ApportionError, InvalidInput
from apportion.runtime.blocks import OnlyAsync, OnlySync
from apportion.runtime.io_thread import io_thread
from apportion.runtime.simulated import Runner

Opened = TypeVar("Opened")
Shown = TypeVar("Shown")


class _Resource(Generic[Opened, Shown]):
    """The part that both kinds of blocks share.

    `begin` opens the resource and `end` closes it. `shown` makes the value that the block gets. `around` is a context
    around the block.
    """

    def __init__(
        self,
        call: str,
        begin: Callable[[], Coroutine[object, object, Opened]],
        end: Callable[[Opened], Coroutine[object, object, None]],
        shown: Callable[[Opened, Runner], Shown],
        *,
        around: Callable[[Opened], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._call, self._begin, self._end, self._shown, self._around = call, begin, end, shown, around
        self._inside: tuple[Opened, Runner, ExitStack] | None = None
        self._is_used = False

    def _entered(self, opened: Opened, thread: Runner, stack: ExitStack) -> Shown:
        stack.enter_context(self._around(opened))
        return self._shown(opened, thread)

    async def _close(self) -> None:
        """Close the resource on the I/O thread, once. It counts as open until this call begins."""
        inside, self._inside = self._inside, None
        if inside is not None:
            self._is_used = False
            await self._end(inside[0])

    def _abandon(self) -> None:
        """Close a resource that an interrupt left open, before the block began or while the block was ending."""
        self._is_used = False
        if (inside := self._inside) is not None:
            inside[2].close()
            inside[1].send(self._close())

    def _use(self) -> Runner:
        if self._is_used:
            hint = "Make another object for each block."
            raise InvalidInput(f"number of open blocks of {self._call}", 2, "one at a time", hint)
        self._is_used = True
        return io_thread()


class AsyncResource(_Resource[Opened, Shown], OnlyAsync):
    """A resource of an `async with` block."""

    async def __aenter__(self) -> Shown:
        thread, stack, is_entered = self._use(), ExitStack(), False
        try:
            opened = await thread.hop(self._begin(), undo=self._end)
            self._inside = inside = opened, thread, stack
            shown = self._entered(*inside)
            is_entered = True
        finally:
            if not is_entered:
                self._abandon()
        return shown

    async def __aexit__(self, kind: object, error: BaseException | None, place: object) -> None:
        if (inside := self._inside) is not None:
            _, thread, stack = inside
            stack.close()
            if thread.runs:  # a forked child that ends within the block does not touch its parent's resources
                with _noted(error):
                    await thread.finish(self._close())


class SyncResource(_Resource[Opened, Shown], OnlySync):
    """A resource of a `with` block."""

    def __enter__(self) -> Shown:
        thread, stack, is_entered = self._use(), ExitStack(), False
        try:
            # The result is stored at once. CPython checks for Ctrl-C when a function begins, and not when it returns.
            opened = thread.wait(self._begin(), undo=self._end)
            self._inside = inside = opened, thread, stack
            shown = self._entered(*inside)
            is_entered = True
        finally:
            if not is_entered:
                self._abandon()
        return shown

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> None:
        try:
            if (inside := self._inside) is not None:
                _, thread, stack = inside
                stack.close()
                if thread.runs:
                    with _noted(error):
                        thread.wait_finished(self._close())
        finally:
            self._abandon()


@contextmanager
def _noted(error: BaseException | None) -> Iterator[None]:
    """Raise an error of this package, or add it as a note to the error that ends the block."""
    try:
        yield
    except ApportionError as other:
        if error is None:
            raise
        error.add_note(f"The close failed too: {type(other).__name__}: {other}")
