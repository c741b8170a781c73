"""`apportion group run`: a member of a group that runs a command for each partition it owns, in any language.

Promises: one process a partition, which ends before the partition is handed over: SIGTERM, and SIGKILL once the drain
times out. When the session is past its deadline all are killed at once, before others may take over. A command that
ends by itself is started again, later each time; it, and all that it started in its process group, is one work.
Refuses: to answer for what a killed command had under way elsewhere; pass its token on to whoever is written to.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from apportion.cluster.facade import AsyncGroup, AsyncOpening
from apportion.cluster.options import DRAIN, TTL
from apportion.cluster.records import Mode
from apportion.console.output import FORMAT_VERSION
from apportion.errors import InvalidInput, NotOwner
from apportion.model.epoch import FencingToken

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 10.0  # a command that ran for so long begins with the first pause again


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Joining:
    """How this process takes part."""

    partitions: Annotated[int, Parameter(help="Number of partitions; all members say the same.")]
    member_id: Annotated[str | None, Parameter(help="Id of this member; of its host, and random.")] = None
    static: Annotated[bool, Parameter(help="Keep the partitions over a restart.")] = False
    replace: Annotated[bool, Parameter(help="Ask a living member of this id to leave.")] = False
    lease_ttl: Annotated[timedelta, Parameter(help="How long a killed member keeps its partitions.")] = TTL
    drain_timeout: Annotated[timedelta, Parameter(help="How long a command has to end.")] = DRAIN
    rejoin_grace: Annotated[timedelta | None, Parameter(help="How long a static member is waited for; 60s.")] = None
    mode: Annotated[Mode, Parameter(help="Whether only what moves pauses, or all.")] = "cooperative"
    balancer: Annotated[str, Parameter(help="What decides who owns what.")] = "optimal"
    throttle: Annotated[int | None, Parameter(help="Most planned moves at once.")] = None
    weight: Annotated[float | None, Parameter(help="How much this member takes.")] = None
    zone: Annotated[str | None, Parameter(help="Where it stands: eu/rack1.")] = None

    def opening(self, url: str, name: str) -> AsyncOpening:
        """Return the group to be joined; see `open_group` for what is refused."""
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
            weight=self.weight,
            zone=None if self.zone is None else tuple(filter(None, self.zone.split("/"))),
        )


def run(url: str, name: str, command: Sequence[str], joining: Joining, *, json: bool) -> None:
    """Take part until a signal asks to leave; every command has ended then."""
    if not command:
        hint = "Write it after two hyphens: apportion group run URL NAME --partitions 64 -- ./worker --quick"
        raise InvalidInput("command", "", "a command and its arguments", hint)
    if shutil.which(command[0]) is None:
        raise InvalidInput("command", command[0], "a program that can be run", "Is it on the PATH, and executable?")
    asyncio.run(_Runner(name, tuple(command), json=json).take_part(joining.opening(url, name)))


class _Runner:
    """The commands of one member."""

    def __init__(self, name: str, command: tuple[str, ...], *, json: bool) -> None:
        self._name, self._command, self._json = name, command, json
        self._lost: dict[int, asyncio.Event] = {}
        self._works: set[asyncio.Task[None]] = set()

    async def take_part(self, opening: AsyncOpening) -> None:
        """Join, follow what is gained and lost, leave."""
        async with opening as group:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupted, group)
            self._say(None, "joined", f"{group.member_id} joined {self._name}")
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
        self._say(None, "left", f"{group.member_id} left {self._name}")

    def _interrupted(self, group: AsyncGroup) -> None:
        """Leave at the first Ctrl-C; the second one ends this process, and with it every command."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        group.leave()

    def _begin(self, group: AsyncGroup, partition: int) -> None:
        lost = self._lost[partition] = asyncio.Event()
        work = asyncio.ensure_future(self._work(group, partition, lost))
        self._works.add(work)
        work.add_done_callback(self._works.discard)

    async def _work(self, group: AsyncGroup, partition: int, lost: asyncio.Event) -> None:
        """Run the command while the partition is ours; the hold keeps it from being handed over before that ended."""
        try:
            async with group.hold(partition) as token:
                await self._keep_running(partition, token, lost)
        except NotOwner as error:
            self._say(partition, "lost", error.problem)

    async def _keep_running(self, partition: int, token: FencingToken, lost: asyncio.Event) -> None:
        pause = FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while not lost.is_set():
            began = loop.time()
            code = await self._run_once(partition, token, lost)
            if lost.is_set():
                self._say(partition, "lost", f"lost; the command has ended ({_how(code)})")
                return
            pause = FIRST_PAUSE_SECONDS if loop.time() - began >= STEADY_SECONDS else pause
            self._say(partition, "ended", f"ended by itself ({_how(code)}); started again in {pause:g} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await lost.wait()
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _run_once(self, partition: int, token: FencingToken, lost: asyncio.Event) -> int:
        """Start the command, and see it end; cancelled, it is killed."""
        process = await self._started(partition, token)
        ended = asyncio.ensure_future(process.wait())
        told = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait((ended, told), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                _signal(process, signal.SIGTERM)
                await asyncio.wait((ended,))
        finally:
            told.cancel()
            is_killed = not ended.done()
            _signal(process, signal.SIGKILL)  # what it has left behind, or itself
            await _seen_through(ended)
            if is_killed:
                self._say(partition, "killed", "killed: the drain timed out, or our session is over")
        return ended.result()

    async def _started(self, partition: int, token: FencingToken) -> asyncio.subprocess.Process:
        given = {
            "APPORTION_GROUP": self._name,
            "APPORTION_PARTITION": str(partition),
            "APPORTION_TOKEN": str(token),
            "APPORTION_TOKEN_HOLDER": token.holder,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "apportion.console.group_child", str(os.getpid()), *self._command),
            env={**os.environ, **given},
            stdin=asyncio.subprocess.DEVNULL,
            process_group=0,
        )
        self._say(partition, "started", f"started process {process.pid} under token {token}")
        return process

    def _say(self, partition: int | None, event: str, text: str) -> None:
        """Report on standard error: standard output belongs to the commands."""
        if self._json:
            import json  # noqa: PLC0415 - the option has its name

            facts = {"group": self._name, "event": event, "partition": partition, "text": text}
            line = json.dumps({"format_version": FORMAT_VERSION, "command": "group run", **facts}, ensure_ascii=False)
        else:
            line = f"{self._name}: {text}" if partition is None else f"{self._name}/{partition}: {text}"
        print(line, file=sys.stderr, flush=True)


async def _seen_through(ended: "asyncio.Future[int]") -> None:
    """Wait until a killed process has ended, whoever cancels us meanwhile: it takes milliseconds."""
    while not ended.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait((ended,))


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal a process and all of its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
