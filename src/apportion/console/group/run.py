"""`apportion group run`: a member of a group that runs a command for each partition it owns, in any language.

Promises: a partition has one command at a time. A command and all of its descendants are one work. The work ends
before the partition is handed over: by SIGTERM, and by SIGKILL once the drain times out. The keeper, the process that
starts the commands, kills all works at the deadline of the session, before others may take over. A command that ends by
itself, or that cannot be started, is started again, later each time. SIGTERM, SIGINT and SIGHUP hand over all
partitions. A second signal kills all works, then the runner.
Refuses: to stop or to wait if its report lines cannot be written. It does not protect other systems from requests of a
killed command: those systems must check its token.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from apportion.console.group.run_lines import Reports
from apportion.console.group.runner_commands import Command, RunnerCommands
from apportion.console.options.arguments import whole
from apportion.console.options.command import check_command
from apportion.console.options.zone_levels import zone_levels
from apportion.errors import NotOwner
from apportion.groups.facade import AsyncGroup, AsyncOpening
from apportion.groups.opening import DRAIN, SETTLE, TTL
from apportion.groups.view.records import Mode
from apportion.guards import note
from apportion.model.epoch import FencingToken
from apportion.runtime.signals import ONE_SIGNAL_SECONDS

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 10.0  # after a run of at least this time, the next pause is the first pause again
LAST_SECONDS = 1.0  # time that killed commands have to end
_KILLED = "killed: the drain timed out, or our session is over"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Joining:
    """How this process takes part."""

    partitions: Annotated[
        int, Parameter(converter=whole, help="Number of partitions; all members pass the same number.")
    ]
    member_id: Annotated[str | None, Parameter(help="Id of this member (default: host name and a random part).")] = None
    static: Annotated[bool, Parameter(help="Keep the partitions over a restart.")] = False
    replace: Annotated[bool, Parameter(help="Ask a living member with this id to leave.")] = False
    lease_ttl: Annotated[timedelta, Parameter(help="Time for which a killed member keeps its partitions.")] = TTL
    drain_timeout: Annotated[timedelta, Parameter(help="Time in which a command must end; then it is killed.")] = DRAIN
    rejoin_grace: Annotated[
        timedelta | None, Parameter(help="Time to wait for a static member that is away (default: 60s).")
    ] = None
    mode: Annotated[
        Mode, Parameter(help="The partitions that pause in a move: only the moving ones, or all (eager).")
    ] = "cooperative"
    balancer: Annotated[str, Parameter(help="Balancer that chooses the owners.")] = "optimal"
    throttle: Annotated[int | None, Parameter(converter=whole, help="Largest number of planned moves at once.")] = None
    settle: Annotated[timedelta, Parameter(help="Time without a newcomer before partitions move.")] = SETTLE
    quarantine_after: Annotated[
        int | None,
        Parameter(converter=whole, help="Number of deaths after which a partition waits until group release is run."),
    ] = None
    weight: Annotated[float | None, Parameter(help="Weight: twice the weight, twice the partitions.")] = None
    zone: Annotated[str | None, Parameter(help="Zone of this member: eu/rack1.")] = None

    def opening(self, url: str, name: str) -> AsyncOpening:
        """Return the group to join; see `open_group` for the values that are refused."""
        return AsyncOpening(
            url,
            name,
            partitions=self.partitions,
            member_id=self.member_id,
            static=self.static,
            replace=self.replace,
            lease_ttl=self.lease_ttl,
            drain_timeout=self.drain_timeout,
            rejoin_grace=self.rejoin_grace,
            mode=self.mode,
            balancer=self.balancer,
            throttle=self.throttle,
            settle=self.settle,
            quarantine_after=self.quarantine_after,
            weight=self.weight,
            zone=zone_levels(self.zone),
        )


def run(url: str, name: str, command: Sequence[str], joining: Joining, *, json: bool) -> None:
    """Take part until a signal asks to leave; return after every command has ended."""
    check_command(command, "apportion group run URL NAME --partitions 64 -- ./worker --quick")
    reports = Reports(name, json=json)
    logging.getLogger().addHandler(reports)
    try:
        asyncio.run(_Runner(name, tuple(command), joining, reports).take_part(joining.opening(url, name)))
    finally:
        logging.getLogger().removeHandler(reports)
        reports.end()


class _Runner:
    """The commands of one member."""

    def __init__(self, name: str, command: tuple[str, ...], joining: Joining, reports: Reports) -> None:
        self._name, self._command, self._say = name, command, reports.say
        self._ttl_seconds = joining.lease_ttl.total_seconds()
        self._lost: dict[int, asyncio.Event] = {}
        self._works: set[asyncio.Task[None]] = set()

    async def take_part(self, opening: AsyncOpening) -> None:
        """Join, follow the gains and losses of partitions, leave."""
        requests = _Requests(self._kill_all)
        with requests.heard():
            try:
                async with opening as group:
                    requests.group = group
                    ttl = self._ttl_seconds
                    self._commands = RunnerCommands(
                        self._command, seconds_left=lambda: group.seconds_left, ttl_seconds=ttl
                    )
                    self._say(None, "joined", f"{group.member_id} joined {self._name}")
                    await self._follow(group)
            except asyncio.CancelledError:
                if requests.first_at is None:
                    raise
                self._say(None, "left", "left before it had joined")
                return
        self._say(None, "left", f"{group.member_id} left {self._name}")

    async def _follow(self, group: AsyncGroup) -> None:
        try:
            async for change in group.changes():
                for partition in change.lost:
                    self._lost[partition].set()
                for partition in change.gained:
                    self._begin(group, partition)
        finally:
            for event in self._lost.values():
                event.set()
            if self._works:
                await asyncio.wait(self._works)
            await self._commands.close()

    async def _kill_all(self) -> None:
        if self._works:
            self._commands.kill_all()
            await asyncio.wait(self._works, timeout=LAST_SECONDS)

    def _begin(self, group: AsyncGroup, partition: int) -> None:
        lost = self._lost[partition] = asyncio.Event()
        work = asyncio.ensure_future(self._work(group, partition, lost))
        self._works.add(work)
        work.add_done_callback(self._works.discard)

    async def _work(self, group: AsyncGroup, partition: int, lost: asyncio.Event) -> None:
        """Run the command while the partition is ours.

        The partition is not handed over before the command has ended, because the hold is open until then.
        """
        try:
            async with group.hold(partition) as token:
                note(token)  # the command asks its guard in another process, so this process cannot see the check
                await self._keep_running(group, partition, token, lost)
        except NotOwner as error:
            self._say(partition, "lost", error.problem)

    async def _keep_running(self, group: AsyncGroup, partition: int, token: FencingToken, lost: asyncio.Event) -> None:
        pause = FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while not lost.is_set():
            group.token(partition)  # raises `NotOwner` if the partition is not ours any more
            began = loop.time()
            how = await self._run_once(partition, token, lost)
            if lost.is_set():
                self._say(partition, "lost", f"lost; the command has ended ({how})")
                return
            if partition not in group.owned:  # the keeper saw the deadline before this process
                self._say(partition, "killed", _KILLED)
                group.token(partition)
            pause = FIRST_PAUSE_SECONDS if loop.time() - began >= STEADY_SECONDS else pause
            self._say(partition, "ended", f"ended by itself ({how}); starts again in {pause:g} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await lost.wait()
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _run_once(self, partition: int, token: FencingToken, lost: asyncio.Event) -> str:
        """Start the command, and await its end; a cancellation kills it."""
        command = await self._started(partition, token)
        told = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait((command.ended, told), return_when=asyncio.FIRST_COMPLETED)
            if not command.ended.done():
                command.ask_to_end()
                await asyncio.wait((command.ended,))
        except asyncio.CancelledError:
            command.kill()
            await _seen_through(command.ended)
            self._say(partition, "killed", _KILLED)
            raise
        finally:
            told.cancel()
        return command.ended.result()

    async def _started(self, partition: int, token: FencingToken) -> Command:
        command = await self._commands.start(
            {
                "APPORTION_GROUP": self._name,
                "APPORTION_PARTITION": str(partition),
                "APPORTION_TOKEN": str(token),
                "APPORTION_TOKEN_HOLDER": token.holder,
            }
        )
        command.pid.add_done_callback(
            lambda pid: self._say(partition, "started", f"started process {pid.result()} under token {token}")
        )
        return command


class _Requests:
    """The signals that ask this process to leave: the first hands all over, a later one ends the process at once."""

    def __init__(self, kill_all: Callable[[], Coroutine[None, None, None]]) -> None:
        self.group: AsyncGroup | None = None
        self.first_at: float | None = None
        self._kill_all, self._loop = kill_all, asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._end: asyncio.Task[None] | None = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Receive the signals within the block; a signal that is ignored, as under nohup, stays ignored."""
        numbers = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        for number in numbers:
            self._loop.add_signal_handler(number, self._hear, number)
        try:
            yield
        finally:
            for number in numbers:
                self._loop.remove_signal_handler(number)

    def _hear(self, number: int) -> None:
        if self.first_at is None:
            self.first_at = self._loop.time()
            if self.group is not None:
                self.group.leave()
            elif self._task is not None:
                self._task.cancel()
        elif self._end is None and self._loop.time() >= self.first_at + ONE_SIGNAL_SECONDS:
            self._end = self._loop.create_task(self._end_by(number))

    async def _end_by(self, number: int) -> None:
        """Kill all works, then this process, by the signal that asked for it."""
        await self._kill_all()
        self._loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


async def _seen_through(ended: "asyncio.Future[str]") -> None:
    """Wait until a killed command has ended, even if our task is cancelled meanwhile. This takes milliseconds."""
    while not ended.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait((ended,))
