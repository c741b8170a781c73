"""Shard commands: a command of the user, run once for each shard of a set, in any language.

The environment of the command has the id of the shard as SHARD_ID, and its URL as SHARD_URL. The command leads a
process group of its own, and has no standard input. Its lines are handed over as they come.

Promises: one bad shard costs itself alone. That is a command that fails or cannot be started, a record that nobody can
read, and a URL with variables that have no values. A URL with its values is in the environment of its command, and
nowhere else.
Refuses: to wait for processes that outlive the command. Their output counts for one more second.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from apportion.errors import BadSnapshot, InvalidInput
from apportion.errors.brief import brief
from apportion.shards.records import SetKeys, ShardRecord
from apportion.shards.router import set_followed, set_left

MOST_AT_ONCE = 64
LONGEST_LINE_BYTES = 2**16
_WITHIN_SECONDS = 5.0
_LAST_SECONDS = 1.0
_LOOK_SECONDS = 0.5

Told = Callable[[str, str, bool], None]
"""Takes a line of output: the shard, the text, and whether it is from the standard error."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEnd:
    """The end of the command of one shard.

    `code` is its exit code, or the number of the signal that ended it, with a minus. It is None if the command was not
    started. `problem` is the reason then.
    """

    shard: str
    code: int | None = None
    problem: str = ""


async def shard_records(url: str, name: str) -> dict[str, ShardRecord | BadSnapshot]:
    """Return the record of each shard of a set, or the error of a record that nobody can read."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS, needs_all=False)
    try:
        return {**followed.shards, **followed.damaged}
    finally:
        await set_left(followed)


def check_parallel(parallel: int) -> None:
    """Refuse a wrong number of commands at once."""
    if type(parallel) is not int or not 1 <= parallel <= MOST_AT_ONCE:
        hint = "Each one is a process of its own. The default is 1."
        raise InvalidInput("parallel", parallel, f"a whole number of 1 to {MOST_AT_ONCE}", hint)


class ShardCommands:
    """The commands of all shards, in the order of their ids. `ends` has those that have ended, in that order too."""

    def __init__(
        self, command: Sequence[str], shards: Mapping[str, ShardRecord | BadSnapshot], *, parallel: int, told: Told
    ) -> None:
        check_parallel(parallel)
        self._command, self._shards, self._parallel, self._told = tuple(command), shards, parallel, told
        self._waiting = deque(sorted(shards))
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._ended: dict[str, ShardEnd] = {}
        self.is_stopped: bool = False

    @property
    def ends(self) -> tuple[ShardEnd, ...]:
        """The end of each shard. A shard that was not reached has the problem "not begun"."""
        return tuple(
            self._ended.get(shard, ShardEnd(shard=shard, problem="not begun")) for shard in sorted(self._shards)
        )

    def stop(self) -> None:
        """Begin no other command. Ask those under way to end, and kill them at a second call."""
        number = signal.SIGKILL if self.is_stopped else signal.SIGTERM
        self.is_stopped = True
        for process in self._running.values():
            _send(process, number)

    async def run(self) -> None:
        """Run the command for each shard, until all have ended. A cancellation kills those under way."""
        lanes = (self._lane() for _ in range(self._parallel))
        for failure in await asyncio.gather(*lanes, return_exceptions=True):
            if failure is not None:
                raise failure

    async def _lane(self) -> None:
        """Run one command after another. An error of the caller's own code stops the other lanes too."""
        is_through = False
        try:
            while self._waiting and not self.is_stopped:
                shard = self._waiting.popleft()
                self._ended[shard] = await self._one(shard)
            is_through = True
        finally:
            if not is_through:
                self.stop()

    async def _one(self, shard: str) -> ShardEnd:
        try:
            environ = self._environ(shard)
            process = await _started(self._command, environ)
        except InvalidInput as error:
            return ShardEnd(shard=shard, problem=error.problem)
        except OSError as error:
            return ShardEnd(shard=shard, problem=f"the command cannot be started: {error.strerror}")
        self._running[shard] = process
        if self.is_stopped:  # while it was started
            _send(process, signal.SIGTERM)
        try:
            await self._followed(shard, process)
        finally:
            if process.returncode is None:
                _send(process, signal.SIGKILL)
                await process.wait()
            del self._running[shard]
        return ShardEnd(shard=shard, code=process.returncode)

    def _environ(self, shard: str) -> dict[str, str]:
        record = self._shards[shard]
        if isinstance(record, BadSnapshot):
            raise record
        return {**os.environ, "SHARD_ID": shard, "SHARD_URL": record.address()}

    async def _followed(self, shard: str, process: asyncio.subprocess.Process) -> None:
        """Hand over the lines of a command until it has ended, and those of its own processes a little longer."""
        readers = [
            asyncio.ensure_future(self._read(shard, stream, is_error=is_error))
            for stream, is_error in ((process.stdout, False), (process.stderr, True))
        ]
        waiting = {*readers, asyncio.ensure_future(_ended(process))}
        try:
            while process.returncode is None:  # `wait` of a process waits for its pipes too
                done, waiting = await asyncio.wait(waiting, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()  # raises the error of a reader
            _, late = await asyncio.wait(readers, timeout=_LAST_SECONDS)
            for each in {*readers} - late:
                each.result()
        finally:
            for each in (*readers, *waiting):
                each.cancel()
            if process.returncode is not None:
                process._transport.close()  # type: ignore[attr-defined] # the pipes of processes that outlive it

    async def _read(self, shard: str, stream: asyncio.StreamReader | None, *, is_error: bool) -> None:
        if stream is not None:
            async for line in _lines(stream):
                self._told(shard, line, is_error)


async def _ended(process: asyncio.subprocess.Process) -> None:
    await process.wait()


async def _started(command: Sequence[str], environ: Mapping[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *command,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a command and to its own processes."""
    with suppress(ProcessLookupError, PermissionError):  # It has just ended.
        os.killpg(process.pid, number)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield the lines of a stream as text. A longer line comes in pieces."""
    rest = b""
    while data := await stream.read(LONGEST_LINE_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield _text(line)
        if len(rest) >= LONGEST_LINE_BYTES:
            yield _text(rest)
            rest = b""
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="backslashreplace")
