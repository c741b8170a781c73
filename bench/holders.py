"""Member processes that hold partitions, their reports, and a check of the reports.

Promises: the check knows only the words of the members, with the times at which they spoke, and nothing of the library:
the holder of each partition, its times, and its token.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from apportion.runtime.clock import SystemClock

DEADLINE_SECONDS = 60.0
_CLOCK = SystemClock()
Stop = tuple[str, float, float]  # a member that did nothing, from when to when


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A member held a partition under a token; `shown`: the last moment at which it could show that."""

    member: str
    partition: int
    token: tuple[int, int]
    start: float
    shown: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A member left, after so many sessions."""

    member: str
    sessions: int
    at: float


@dataclass(slots=True, kw_only=True)
class Holders:
    """Member processes of one group, and all that they said."""

    url: str
    partitions: int
    ttl_seconds: float = 2.0
    holds: list[Hold] = field(default_factory=list)
    lost: list[tuple[str, int, float]] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)  # the last holder
    processes: dict[str, Process] = field(default_factory=dict)
    _reading: "list[asyncio.Task[None]]" = field(default_factory=list)

    async def start(self, name: str, *, url: str | None = None) -> None:
        """Start a member, which may reach the store on a way of its own."""
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.holder", stdin=PIPE, stdout=PIPE)
        self.processes[name] = process
        said = {"url": url or self.url, "member": name, "partitions": self.partitions, "ttl": self.ttl_seconds}
        self.say(name, json.dumps(said))
        self._reading.append(asyncio.create_task(self._read(name, process)))

    def say(self, name: str, line: str) -> None:
        """Write a line to a member."""
        if (stdin := self.processes[name].stdin) is not None:
            stdin.write(f"{line}\n".encode())

    def send(self, name: str, number: int) -> None:
        """Send a signal to a member."""
        self.processes[name].send_signal(number)

    def is_shared(self, *names: str) -> bool:
        """Whether just these members hold all partitions, evenly."""
        counts = [list(self.owners.values()).count(name) for name in names]
        return sum(counts) == self.partitions and max(counts) - min(counts) <= 1

    async def until(self, is_so: Callable[[], bool], *, within: float = DEADLINE_SECONDS) -> None:
        """Wait until something is so. A member that has ended by itself is an error."""
        async with asyncio.timeout(within):
            while not is_so():
                if ended := [name for name, process in self.processes.items() if process.returncode is not None]:
                    raise RuntimeError(f"{', '.join(ended)} ended, though nobody asked for that")
                await asyncio.sleep(0.005)

    async def leave(self, name: str) -> float:
        """Let a member leave; return how long it took until it had, and others held each partition that it had held."""
        began, mine = _CLOCK.elapsed(), [each for each, owner in self.owners.items() if owner == name]
        before = len(self.left)
        self.say(name, "leave")
        await self.until(lambda: len(self.left) > before and name not in self.owners.values())
        taken = [self._first(each, not_of=name, after=began) for each in mine]
        return max(self.left[-1].at, *taken) - began

    def served_after(self, at: float) -> float | None:
        """Return how long after some time each partition was held by somebody; None while one was not yet."""
        first = dict[int, float]()
        for hold in self.holds:
            if hold.shown >= at:
                first[hold.partition] = min(first.get(hold.partition, hold.start), hold.start)
        return max(0.0, *(each - at for each in first.values())) if len(first) == self.partitions else None

    def gaps(self, *, after: float) -> list[float]:
        """Return for each partition the longest time that nobody held it, from some time to its last hold."""
        longest = []
        for holds in _by_partition(self.holds).values():
            until, most = after, 0.0
            for hold in holds:
                most = max(most, hold.start - until)
                until = max(until, hold.end)
            longest.append(most)
        return longest

    async def end(self) -> None:
        """End all members."""
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
        await asyncio.gather(*self._reading, *(process.wait() for process in self.processes.values()))

    def _first(self, partition: int, *, not_of: str, after: float) -> float:
        """Return when another member held a partition first, after some time."""
        held = (each for each in self.holds if each.partition == partition and each.member != not_of)
        return min(each.start for each in held if each.start > after)

    async def _read(self, name: str, process: Process) -> None:
        while process.stdout is not None and (line := await process.stdout.readline()):
            what, *told = line.decode().split()
            if what == "held":
                partition, incarnation, epoch = map(int, told[:3])
                start, shown, end = map(float, told[3:])
                token = incarnation, epoch
                hold = Hold(member=name, partition=partition, token=token, start=start, shown=shown, end=end)
                self.holds.append(hold)
                self.owners[partition] = name
            elif what == "lost":
                self.lost.append((name, int(told[0]), float(told[1])))
            else:
                self.left.append(Left(member=name, sessions=int(told[0]), at=float(told[1])))


def overlaps(holds: Iterable[Hold], stops: Iterable[Stop] = ()) -> list[tuple[Hold, Hold]]:
    """Return the holds of two members on one partition that have a moment in common.

    A hold ends when its member says so. A member that was stopped in it could not say so: its hold ends when it could
    show its token for the last time.
    """
    stopped, found = list(stops), []
    for of_partition in _by_partition(holds).values():
        last = dict[str, Hold]()
        for hold in of_partition:
            others = (each for name, each in last.items() if name != hold.member)
            found += [(each, hold) for each in others if hold.start < _end(each, stopped)]
            before = last.get(hold.member)
            last[hold.member] = hold if before is None or before.end < hold.end else before
    return found


def tokens_twice(holds: Iterable[Hold]) -> list[tuple[Hold, Hold]]:
    """Return the holds under a token that another member had before, or that is below one that was shown before."""
    found = []
    for of_partition in _by_partition(holds).values():
        newest = of_partition[0]
        for hold in of_partition:
            if hold.token < newest.token or (hold.token == newest.token and hold.member != newest.member):
                found.append((newest, hold))
            newest = max(newest, hold, key=lambda each: each.token)
    return found


def _by_partition(holds: Iterable[Hold]) -> dict[int, list[Hold]]:
    found = defaultdict[int, list[Hold]](list)
    for hold in sorted(holds, key=lambda each: each.start):
        found[hold.partition].append(hold)
    return dict(found)


def _end(hold: Hold, stops: Iterable[Stop]) -> float:
    is_stopped = any(name == hold.member and since < hold.end and until > hold.start for name, since, until in stops)
    return hold.shown if is_stopped else hold.end
