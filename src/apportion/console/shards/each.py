"""`apportion shards each`: run a command once for each shard of a set."""

import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.options.command import Command, check_command
from apportion.console.print.output import print_json_line, print_text
from apportion.console.shards.options import SetName
from apportion.runtime.io_thread import io_thread
from apportion.runtime.signals import ONE_SIGNAL_SECONDS
from apportion.shards.round.shard_commands import ShardCommands, ShardEnd, check_parallel, shard_records

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def each_shards(
    url: Url,
    name: SetName,
    /,
    *command: Command,
    parallel: Annotated[Whole, Parameter(help="Commands that run at once.")] = 1,
    json: Json = False,
) -> int:
    """Run a command once for each shard, with SHARD_ID and SHARD_URL in its environment.

    A shard that fails costs itself alone. Exit code 1 if a command failed or was not run; the last lines name these
    shards. Ctrl-C asks the commands under way to end, and begins no other.

    Parameters
    ----------
    command
        The command, after --, with its arguments.
    """
    check_command(command, "apportion shards each URL SET -- ./report --quick")
    check_parallel(parallel)
    run = _Run(name, json=json)
    asyncio.run(run.made(url, command, parallel))
    return run.report()


class _Run:
    """The commands of one call, and the lines that it prints."""

    def __init__(self, name: str, *, json: bool) -> None:
        self._name, self._json, self._width = name, json, 0
        self._commands: ShardCommands | None = None
        self._signal, self._asked_at = 0, 0.0

    async def made(self, url: str, command: Sequence[str], parallel: int) -> None:
        """Run all commands."""
        records = await io_thread().hop(shard_records(url, self._name))
        self._width = max(map(len, records))
        self._commands = commands = ShardCommands(command, records, parallel=parallel, told=self._told)
        with self._heard(asyncio.get_running_loop()):
            await commands.run()

    def report(self) -> int:
        """Print the ends; return the exit code."""
        ends = () if self._commands is None else self._commands.ends
        bad = [each for each in ends if each.code != 0]
        for each in ends if self._json else bad:
            if self._json:
                facts = {"set": self._name, "shard": each.shard, "code": each.code, "problem": _said(each)}
                print_json_line("shards each", facts)
            else:
                print_text(f"- {each.shard}: {_said(each)}")
        if not self._json:
            named = f"; failed: {', '.join(each.shard for each in bad)}" if bad else ""
            print_text(f"shards each: {self._name}: {len(ends) - len(bad)} of {len(ends)} shards succeeded{named}")
        return 128 + self._signal if self._signal else 1 if bad else 0

    def _told(self, shard: str, line: str, is_error: bool) -> None:
        if self._json:
            facts = {"set": self._name, "shard": shard, "stream": "error" if is_error else "output", "text": line}
            print_json_line("shards each", facts)
        else:
            print(f"{shard:<{self._width}} | {line}", file=sys.stderr if is_error else sys.stdout, flush=True)

    @contextmanager
    def _heard(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Receive the signals within the block. A signal that is ignored, as under nohup, stays ignored."""
        numbers = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, self._hear, loop, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _hear(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        """Stop the commands. Signals of one second are one request; a later one kills."""
        now = loop.time()
        if self._commands is not None and (not self._signal or now >= self._asked_at + ONE_SIGNAL_SECONDS):
            self._commands.stop()
            self._signal, self._asked_at = self._signal or number, now


def _said(end: ShardEnd) -> str:
    """Return how a command has failed, "" for one that has not."""
    if end.code is None:
        return end.problem
    if end.code < 0:
        known = {each.value: each.name for each in signal.Signals}
        return f"ended by {known.get(-end.code, f'signal {-end.code}')}"
    return f"exit code {end.code}" if end.code else ""
