"""What stores lose of what they acknowledged, measured: the table of docs/stores/durability.md.

    python -m tests.durability --rounds 5

A writer process commits one key after another and says each that was acknowledged. At a moment drawn at random the
store (or, for SQLite, the writer) is killed; then it is started again and read. *Lost* is what was acknowledged and is
not there. *Unsaid* is what is there and was never acknowledged: a reply that did not come says nothing.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random

from apportion.errors import Unavailable
from apportion.sim.conformance.rig import Rig
from tests.stores import powercut

BATCH = 8  # at once: a store that groups its syncs has something in flight
DEADLINE_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A store as it is set up, and the faults upon it. `promised`: the store promises to lose nothing."""

    store: str
    mode: str
    fault: str
    rig: Callable[[], Rig]
    strike: Callable[[Rig], Awaitable[None]] | None = None
    promised: bool = True


@dataclass(slots=True)
class Tally:
    """The result of several rounds of one case."""

    acknowledged: int = 0
    lost: int = 0
    unsaid: int = 0


def main(arguments: "list[str] | None" = None) -> int:
    """Measure every case and print the table; 1 if a store broke its promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each store is struck")
    parser.add_argument("--seed", type=int, default=None, help="of the moments at which it is struck")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else int(time.time())
    print(f"durability: seed {seed}, {options.rounds} rounds a case\n")
    print("| store | mode | what happened | acknowledged | lost | unsaid |\n|---|---|---|---|---|---|")
    broken = [case for case in CASES if not _row(case, options.rounds, Random(seed)) and case.promised]
    cut = {mode: _cut_row(mode, instead, seed, options.rounds) for mode, instead in CUTS.items()}
    return 1 if broken or cut["WAL, FULL (ours)"] else 0


def tallied(case: Case, rounds: int, random: Random) -> Tally:
    """Strike a store so many times, and count."""
    tally = Tally()
    rig = case.rig()
    try:
        for number in range(rounds):
            asyncio.run(_round(case, rig, f"round{number}", random.uniform(0.3, 1.2), tally))
    finally:
        asyncio.run(rig.close())
    return tally


def _row(case: Case, rounds: int, random: Random) -> bool:
    tally = tallied(case, rounds, random)
    said = f"{case.store} | {case.mode} | {case.fault} | {tally.acknowledged:,} | {tally.lost:,} | {tally.unsaid:,}"
    print(f"| {said} |", flush=True)
    return tally.lost == 0


def _cut_row(mode: str, instead: dict[str, str], seed: int, rounds: int) -> int:
    """Cut the power at every point of some workloads, so many ways each; return at how many something is lost."""
    with tempfile.TemporaryDirectory(prefix="durability-") as folder:
        found = powercut.survey(seed, Path(folder), each=rounds, instead=instead)
    verdicts = [verdict for each in found.values() for verdict in each]
    lost = sum(map(bool, verdicts))
    print(f"| SQLite | {mode} | power cut, at {len(verdicts):,} points | | at {lost:,} points | |", flush=True)
    return lost


async def _round(case: Case, rig: Rig, namespace: str, seconds: float, tally: Tally) -> None:
    with _writer(rig.url(namespace)) as (process, acknowledged):
        ends = time.monotonic() + DEADLINE_SECONDS
        while not acknowledged:
            assert time.monotonic() < ends, "the writer does not write"
            assert process.poll() is None, "the writer ended"
            await asyncio.sleep(0.01)
        await asyncio.sleep(seconds)
        if case.strike is not None:
            await case.strike(rig)
    if case.strike is not None:
        await rig.start()
    stored = await _stored(rig, namespace)
    tally.acknowledged += len(acknowledged)
    tally.lost += len(set(acknowledged) - stored)
    tally.unsaid += len(stored - set(acknowledged))


@contextmanager
def _writer(url: str) -> "Iterator[tuple[subprocess.Popen[str], list[str]]]":
    """Start a writer; yield it and the keys it reports as acknowledged; kill it at the end and read the rest."""
    command = [sys.executable, "-m", "tests.durability_writer", str(BATCH)]
    acknowledged: list[str] = []
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        )
        assert process.stdin is not None
        process.stdin.write(f"{url}\n")  # not an argument: it may hold a password
        process.stdin.flush()
        reader = threading.Thread(target=lambda: acknowledged.extend(line.strip() for line in process.stdout or ()))
        reader.start()
        try:
            yield process, acknowledged
        finally:
            process.kill()
            reader.join()


async def _stored(rig: Rig, namespace: str) -> set[str]:
    ends = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            store = await rig.connect(namespace)
            try:
                return {item.key for item in (await store.scan("")).items}
            finally:
                await store.close()
        except Unavailable:
            assert time.monotonic() < ends, "the store did not come back"
            await asyncio.sleep(0.1)


def _rig(name: str, *arguments: object, **options: object) -> Callable[[], Rig]:
    return lambda: import_module(f"tests.stores.rigs.{name}").RIG(*arguments, **options)


async def _kill(rig: Rig) -> None:
    await rig.kill()


async def _stop_at_once(rig: Rig) -> None:
    """PostgreSQL's immediate stop: as `pg_ctl stop -m immediate` asks for."""
    server = rig.server  # type: ignore[attr-defined]
    server.send_signal(signal.SIGQUIT)
    await asyncio.to_thread(server.wait)


CASES = (
    Case(store="SQLite", mode="WAL, FULL (ours)", fault="kill -9 of the writer", rig=_rig("sqlite", own_disk=False)),
    Case(store="PostgreSQL", mode="on (ours)", fault="kill -9 of all", rig=_rig("postgres"), strike=_kill),
    Case(store="PostgreSQL", mode="on (ours)", fault="immediate stop", rig=_rig("postgres"), strike=_stop_at_once),
    Case(store="etcd", mode="one node", fault="kill -9", rig=_rig("etcd"), strike=_kill),
    Case(store="Redis", mode="AOF always", fault="kill -9", rig=_rig("redis"), strike=_kill, promised=False),
    Case(
        store="Redis",
        mode="AOF everysec",
        fault="kill -9",
        rig=_rig("redis", "appendfsync everysec"),
        strike=_kill,
        promised=False,
    ),
    Case(
        store="Redis",
        mode="snapshots only",
        fault="kill -9",
        rig=_rig("redis", append_only=False),
        strike=_kill,
        promised=False,
    ),
)
FULL: dict[str, str] = {}
NORMAL = {"PRAGMA synchronous=FULL": "PRAGMA synchronous=NORMAL"}
CUTS = {"WAL, FULL (ours)": FULL, "WAL, NORMAL": NORMAL}

if __name__ == "__main__":
    sys.exit(main())
