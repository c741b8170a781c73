"""Groups of processes, and their reports of the partitions that they gain and lose."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

DEADLINE_SECONDS = 60
_MOST_MEMBERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A member gained or lost a partition, at so many elapsed seconds of the machine."""

    member: str
    partition: int
    is_gain: bool
    at: float


@dataclass(slots=True, kw_only=True)
class Crew:
    """Member processes of one group, and all that they said."""

    url: str
    partitions: int
    ttl_seconds: float = 2.0
    mode: str = "cooperative"
    throttle: int = 0
    fatal_seconds: float = 0.0
    said: list[Said] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)
    processes: "dict[str, subprocess.Popen[str]]" = field(default_factory=dict)
    _reading: "list[asyncio.Future[None]]" = field(default_factory=list)
    _readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=_MOST_MEMBERS))

    def start(self, name: str) -> None:
        """Start a member."""
        arguments = [name, str(self.partitions), str(self.ttl_seconds), self.mode, str(self.throttle)]
        arguments.append(str(self.fatal_seconds))
        command = [sys.executable, "-m", "bench.group_member", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if process.stdin is not None:
            process.stdin.write(f"{self.url}\n")
            process.stdin.close()
        self.processes[name] = process
        loop = asyncio.get_running_loop()
        self._reading.append(loop.run_in_executor(self._readers, self._read, name, process, loop))

    def kill(self, name: str) -> set[int]:
        """Kill a member; return the partitions that it owned."""
        self.processes.pop(name).kill()
        return {partition for partition, owner in self.owners.items() if owner == name}

    def counts(self) -> dict[str, int]:
        """Return how many partitions each living member owns."""
        owned = Counter(self.owners.values())
        return {name: owned[name] for name in self.processes}

    def is_even(self) -> bool:
        """Whether the living members own all partitions, evenly."""
        counts = self.counts().values()
        return sum(counts) == self.partitions and max(counts) - min(counts) <= 1

    async def until(self, is_so: Callable[[], bool], *, within: float = DEADLINE_SECONDS) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(within):
            while not is_so():
                await asyncio.sleep(0.005)

    async def end(self) -> None:
        """End all members."""
        for process in self.processes.values():
            process.kill()
        await asyncio.gather(*self._reading)
        for process in self.processes.values():
            process.wait()
        self._readers.shutdown()

    def gaps(self, after: float) -> list[float]:
        """Return how long each partition that moved after some time had no owner."""
        lost = {each.partition: each.at for each in self.said if not each.is_gain and each.at >= after}
        gained = [each for each in self.said if each.is_gain and each.at >= after and each.partition in lost]
        return sorted(each.at - lost[each.partition] for each in gained)

    def _read(self, name: str, process: "subprocess.Popen[str]", loop: asyncio.AbstractEventLoop) -> None:
        for line in process.stdout or ():
            sign, partition, at = line.split()
            said = Said(member=name, partition=int(partition), is_gain=sign == "+", at=float(at))
            loop.call_soon_threadsafe(self._note, said)

    def _note(self, said: Said) -> None:
        self.said.append(said)
        if said.is_gain:
            self.owners[said.partition] = said.member
        elif self.owners.get(said.partition) == said.member:
            del self.owners[said.partition]


def quantile(values: list[float], share: float) -> float:
    """Return the value below which a share of sorted values lies."""
    return values[min(len(values) - 1, int(share * len(values)))]
