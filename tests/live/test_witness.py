"""Processes that change one store at once, and are killed: the simulated world's invariants hold for them too."""

import asyncio
import subprocess
import sys

import pytest

from apportion.runtime.clock import SystemClock
from apportion.sim.facts import Answered, Changed, Delivered
from apportion.sim.invariants.store import Checker
from apportion.stores import Committed
from tests.stores.rigs import rig_of
from tests.stores.witness import facts_of

pytestmark = pytest.mark.live

MEMBERS, KILLED, CHANGES, DEADLINE_SECONDS = 4, 2, 400, 60


def started(url, name):
    command = [sys.executable, "-m", "tests.stores.witness", name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(f"{url}\n")
    process.stdin.close()
    return process


async def watched(store, after, seen, clock):
    async for change in store.watch("", after=after):
        seen.append((clock.elapsed(), change))


async def until(is_so):
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not is_so():
            await asyncio.sleep(0.01)


async def witnessed(rig):
    """Let members change the store, kill some of them meanwhile; return the facts."""
    clock, seen = SystemClock(), []
    store = await rig.connect("witness")
    scan, began = await store.scan(""), clock.elapsed()
    watching = asyncio.ensure_future(watched(store, scan.revision, seen, clock))
    members = [started(rig.url("witness"), f"m{number}") for number in range(MEMBERS)]
    reading = [asyncio.ensure_future(asyncio.to_thread(member.stdout.readlines)) for member in members]
    for number, member in enumerate(members):
        enough = CHANGES // 2 if number < KILLED else CHANGES
        await until(lambda enough=enough: len(seen) >= enough)
        member.kill()
    lines = [line for each in await asyncio.gather(*reading) for line in each]
    last = (await store.scan("")).revision
    await until(lambda: seen[-1][1].revision >= last)
    watching.cancel()
    await store.close()
    for member in members:
        member.wait()
        member.stdout.close()
    return facts_of(began, scan, lines, seen)


def acknowledged(fact):
    """A member that is killed may change the store and not live to say so."""
    return isinstance(fact, Answered) and isinstance(fact.outcome, Committed)


def violations(facts):
    checker = Checker()
    for fact in facts:
        checker.add(fact)
    return checker.violations


@pytest.mark.parametrize("name", ["sqlite", "postgres", "etcd"])
def test_processes_that_are_killed_break_no_invariant_and_a_forged_log_does(name):
    rig = rig_of(name)()
    try:
        facts = asyncio.run(witnessed(rig))
    finally:
        asyncio.run(rig.close())
    assert CHANGES <= sum(isinstance(fact, Changed) for fact in facts)
    assert [] == violations(facts)
    revision = next(fact.outcome.revision for fact in facts[len(facts) // 2 :] if acknowledged(fact))
    lost = [fact for fact in facts if not (isinstance(fact, Changed) and fact.revision == revision)]
    assert "AnswersAreTrue" in {each.invariant for each in violations(lost)}
    unseen = [fact for fact in facts if not (isinstance(fact, Delivered) and fact.revision == revision)]
    assert {"WatchesMissNothing"} == {each.invariant for each in violations(unseen)}
