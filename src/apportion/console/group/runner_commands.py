"""Commands: the runner's side of its keeper, the process that starts and ends the commands.

Promises: code here waits only for outcomes. A command counts as ended if its start fails, or if its keeper has ended.
The runner sends the deadline of the session to the keeper again and again (a beat). The keeper kills all commands at
that deadline. A runner that is paused, is blocked, or has lost its store sends no later deadline.
Refuses: to fork. The runner has threads, and a fork of it may hang.
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress

from apportion.console.group import keeper
from apportion.runtime.clock import SystemClock

BEATS_PER_TTL = 20


class Command:
    """A command that was asked for.

    `pid` is set once the command runs; `ended` is set to its outcome once its tree has ended.
    """

    def __init__(self, number: int, order: Callable[[str, int], None]) -> None:
        loop = asyncio.get_running_loop()
        self.pid: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self._number, self._order = number, order

    def ask_to_end(self) -> None:
        """Send SIGTERM to its process group."""
        self._order("ask", self._number)

    def kill(self) -> None:
        """Send SIGKILL to its whole tree."""
        self._order("kill", self._number)


class RunnerCommands:
    """The commands of one runner: the same command for all, with different variables."""

    def __init__(self, command: Sequence[str], *, seconds_left: Callable[[], float], ttl_seconds: float) -> None:
        self._command, self._seconds_left, self._ttl_seconds = command, seconds_left, ttl_seconds
        self._known: dict[int, Command] = {}
        self._opening = asyncio.Lock()
        self._keeper: _Keeper | None = None
        self._count = 0

    async def start(self, environ: Mapping[str, str]) -> Command:
        """Ask for the command with additional variables."""
        self._count += 1
        number = self._count
        command = Command(number, self._order)
        try:
            async with self._opening:
                self._keeper = self._keeper or await self._opened()
        except OSError as error:
            command.ended.set_result(f"not started: {error.strerror}")
            return command
        self._known[number] = command
        self._keeper.order("start", {"id": number, "environ": dict(environ)})
        return command

    def kill_all(self) -> None:
        """Send SIGKILL to every tree."""
        for number in self._known:
            self._order("kill", number)

    async def close(self) -> None:
        """End the keeper, and with it all commands that still run."""
        if self._keeper is not None:
            await self._keeper.close()

    def _order(self, what: str, number: int) -> None:
        if self._keeper is not None:
            self._keeper.order(what, {"id": number})

    async def _opened(self) -> "_Keeper":
        """Start a keeper, and send it the deadline first."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ExitStack() as undo:
            undo.callback(ours.close)  # if the keeper has started, the closed socket ends it
            with theirs:
                process = _process(self._command, theirs)
            _, keeper = await loop.create_connection(lambda: _Keeper(process, self._hear), sock=ours)
            undo.pop_all()
        keeper.beating = loop.create_task(self._beat(keeper))
        self._tell_deadline(keeper)
        return keeper

    async def _beat(self, keeper: "_Keeper") -> None:
        while True:
            await asyncio.sleep(self._ttl_seconds / BEATS_PER_TTL)
            self._tell_deadline(keeper)

    def _tell_deadline(self, keeper: "_Keeper") -> None:
        """Send the deadline of the commands. The clock is read first: a pause in between makes the deadline earlier."""
        now = SystemClock().elapsed()
        keeper.order("live", {"until": now + self._seconds_left()})

    def _hear(self, reply: Mapping[str, object] | None) -> None:
        """Take a reply of the keeper; None comes when the keeper and every tree have ended."""
        if reply is None:
            self._keeper = None
            for number in tuple(self._known):
                self._known.pop(number).ended.set_result("the keeper of all commands has ended")
            return
        number = int(str(reply["id"]))
        if isinstance(pid := reply["pid"], int):
            self._known[number].pid.set_result(pid)
        if isinstance(end := reply["end"], str):
            self._known.pop(number).ended.set_result(end)


class _Keeper(asyncio.Protocol):
    """One keeper: its process, and the socket for orders to the keeper and for its replies."""

    beating: "asyncio.Task[None]"

    def __init__(self, process: "subprocess.Popen[bytes]", hear: Callable[[Mapping[str, object] | None], None]) -> None:
        self._process, self._hear, self._unread = process, hear, b""
        self._is_gone = asyncio.get_running_loop().create_future()

    def order(self, what: str, members: Mapping[str, object]) -> None:
        """Send an order; nothing waits for it."""
        self._transport.write(json.dumps({"do": what, **members}).encode() + b"\n")

    async def close(self) -> None:
        """Close our side of the socket, and wait: this ends the keeper and all of its commands."""
        self._transport.write_eof()
        await self._is_gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to which orders are written."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - asyncio gives every stream such a transport
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Split the data into replies."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        """Reap the keeper. The closed socket shows that every tree has ended."""
        self.beating.cancel()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._hear(None)
        self._is_gone.set_result(None)


def _process(command: Sequence[str], theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """Start a keeper by the path of its file, isolated: no module of the working directory is run."""
    number = theirs.fileno()
    return subprocess.Popen(  # noqa: S603 - the command of the user
        [sys.executable, "-I", "-S", keeper.__file__, str(number), *command],
        stdin=subprocess.DEVNULL,
        pass_fds=[number],
        start_new_session=True,
    )
