"""Nursery: makes the children of a worker, by a fork server or, without one, as new interpreters.

The fork server makes a child in a few hundredths of a second. A new interpreter needs about a second.
Promises: children and the server end with the process of the workers. If the server has ended, it is started again.
"""

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from apportion.runtime.endings import outlasting
from apportion.work.children.frames import awaited, frame

_LAST_SECONDS = 0.2  # the wait for messages that are still on their way
_CAN_FORK = hasattr(os, "fork") and hasattr(socket, "send_fds")
_PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from apportion.work.children.{} import main; main(*sys.argv[1:3])"
# A program's own queue.py or signal.py must not be loaded in place of the standard library's. The worker loaded the
# library's modules before the program changed `sys.path`; a child has yet to load them.
_LIBRARY = (str(Path(os.__file__).parent), str(Path(os.__file__).parent / "lib-dynload"))
_SERVER, _CHILD = _PROGRAM.format("fork_server"), _PROGRAM.format("child")


def import_path() -> list[str]:
    """Return the places in which this process looks for modules. Imports skip all other objects in `sys.path`."""
    return [each for each in sys.path if isinstance(each, str)]


class _Leash(Protocol):
    """The control over one child."""

    def kill(self) -> None:
        """Kill the child."""

    async def ended(self) -> str:
        """Wait for the end of the child, and return its exit code; a signal is negative."""


class Child:
    """A child process. `is_new` means that it has ended no attempt yet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, leash: _Leash) -> None:
        self.is_new: bool = True
        self._reader, self._writer, self._leash = reader, writer, leash
        self._ending = asyncio.ensure_future(leash.ended())
        self._ending.add_done_callback(self._hear_no_more)

    @property
    def lives(self) -> bool:
        """Whether the child is alive, as far as it is known."""
        return not self._reader.at_eof()

    def say(self, said: dict[str, Any]) -> None:
        """Send a message."""
        self._writer.write(frame(said))

    async def heard(self) -> dict[str, Any] | None:
        """Return the next message of the child, None once it has ended."""
        return await awaited(self._reader)

    def kill(self) -> None:
        """Kill the child."""
        self._leash.kill()
        self._writer.close()

    async def killed(self) -> None:
        """Kill the child, and wait for its end."""
        self._leash.kill()
        await self.ended()

    async def ended(self) -> str:
        """Wait for the end of the child, and return its exit code. A child that does not end soon is killed."""
        await asyncio.wait([self._ending], timeout=_LAST_SECONDS)
        self._leash.kill()
        code = await outlasting(self._ending)
        self._writer.close()
        return code

    def _hear_no_more(self, _: object) -> None:
        """End the stream of messages soon: a process that the child has forked may keep the socket open."""
        asyncio.get_running_loop().call_later(_LAST_SECONDS, self._reader.feed_eof)


class Nursery:
    """The maker of the children of one worker. Workers on one event loop share a fork server of 23 MB."""

    def __init__(self) -> None:
        self._shared: _Server | None = None

    async def start(self) -> None:
        """Start the fork server, unless it runs. The start takes about a second, and orders wait for it."""
        if self._shared is None:
            self._shared = _servers.setdefault(asyncio.get_running_loop(), _Server())
            self._shared.users += 1
        await self._shared.start()

    async def born(self) -> Child:
        """Make a child."""
        ours, theirs = socket.socketpair()
        with theirs:
            leash = await self._forked(theirs) or _Spawned(await _started(_CHILD, theirs))
        reader, writer = await asyncio.open_connection(sock=ours)
        return Child(reader, writer, leash)

    async def close(self) -> None:
        """End the fork server, unless another worker uses it."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.users -= 1
            if not shared.users:
                del _servers[asyncio.get_running_loop()]
                await shared.end()

    async def _forked(self, jobs: socket.socket) -> _Leash | None:
        """Let the server make a child; return None if there is no server."""
        await self.start()
        return None if self._shared is None else self._shared.forked(jobs)


class _Server:
    """The fork server of the workers on one event loop. It runs as long as it has `users`."""

    def __init__(self) -> None:
        self.users = 0
        self.process: asyncio.subprocess.Process | None = None
        self._orders: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the process, unless it runs."""
        async with self._starting:
            if not _CAN_FORK or (self.process is not None and self.process.returncode is None):
                return
            await self._end()
            self._orders, theirs = socket.socketpair()
            self.process = await _started(_SERVER, theirs)

    async def end(self) -> None:
        """End the process and all its children, also if it has just been started."""
        async with self._starting:
            await self._end()

    def forked(self, jobs: socket.socket) -> _Leash | None:
        """Let the process make a child; return None if it cannot."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                if self._orders is not None:
                    socket.send_fds(self._orders, [b"+"], [jobs.fileno(), theirs.fileno()])
                    return _Forked(ours)
            except ConnectionError:
                pass  # the server has just ended
        ours.close()
        return None

    async def _end(self) -> None:
        if self._orders is not None:
            self._orders.close()
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        self._orders = self.process = None


_servers: dict[asyncio.AbstractEventLoop, _Server] = {}


class _Forked:
    """A child of the fork server."""

    def __init__(self, leash: socket.socket) -> None:
        self._leash = leash
        leash.setblocking(False)

    def kill(self) -> None:
        """See `_Leash`."""
        with suppress(OSError):  # the child has ended, and its leash is closed
            self._leash.shutdown(socket.SHUT_WR)

    async def ended(self) -> str:
        """See `_Leash`."""
        with self._leash:
            code = await asyncio.get_running_loop().sock_recv(self._leash, 16)
        return code.decode() or "its fork server"


class _Spawned:
    """A child that is an interpreter of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def kill(self) -> None:
        """See `_Leash`."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> str:
        """See `_Leash`."""
        return str(await self._process.wait())


async def _started(program: str, inherited: socket.socket) -> asyncio.subprocess.Process:
    """Start an interpreter that finds the modules that this one finds; it inherits one socket."""
    with inherited:
        command = [
            sys.executable,
            "-P",
            "-c",
            program,
            str(inherited.fileno()),
            str(os.getpid()),
            *_LIBRARY,
            *import_path(),
        ]
        return await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, pass_fds=(inherited.fileno(),)
        )
