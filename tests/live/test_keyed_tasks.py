"""Keys with real processes: workers join, leave, are killed, stopped past their lease and woken; one run in ten fails.

An independent verifier reads the log of the runs alone.
"""

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.proxy import Proxy
from tests.live.keyed_crew import KEYS, KeyedCrew
from tests.live.keyed_verdict import read, verdict
from tests.stores.rigs import rig_of

pytestmark = [pytest.mark.live, pytest.mark.crowded]
RUN_SECONDS = 4.0  # longer than the time to live of a session
SHORT, LONG = 4.0, 60.0  # of a cut, in seconds


@contextmanager
def engine(name):
    """Within the block, an engine runs."""
    rig = rig_of(name)()
    try:
        yield rig
    finally:
        asyncio.run(rig.close())


@asynccontextmanager
async def fed(crew):
    """Within the block, the crew is fed; at its end all tasks are done."""
    feeding = asyncio.ensure_future(crew.feed())
    try:
        yield
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await feeding
    await crew.until_drained()


def judged(crew):
    found = verdict(read(crew.log), crew.expected)
    assert ([], [], [], []) == (found.order_broken, found.overlaps, found.lost, found.stale)
    return found


def _is_run(line, since):
    return line.word == "begun" and line.at > since


def now():
    return SystemClock().elapsed()


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_each_key_keeps_its_order_while_workers_join_leave_die_and_sleep(tmp_path, place):
    async def story(url):
        crew = KeyedCrew(tmp_path, url)
        try:
            await crew.start("a", "b", "c", "d")
            async with fed(crew):
                await crew.until(lambda: crew.done() > KEYS, "work")
                await crew.start("e")
                await crew.until(lambda: crew.runs_after(0, "e"), "work of a newcomer")
                await crew.kill("a")
                await crew.stop("b")
                began = now()
                await crew.until(lambda: crew.runs_after(began, "b"), "work of the woken one")
                await crew.leave("c")
                began = now()
                await crew.until(lambda: crew.runs_after(began, "b", "d", "e"), "work of the others")
            return judged(crew)
        finally:
            crew.end()
            await crew.queue.close()

    with engine(place) as rig:
        found = asyncio.run(asyncio.wait_for(story(rig.url("keyed")), 120))
    assert found.broken_off >= 2
    assert found.failures > 0


def test_a_rolling_restart_of_static_workers_moves_no_key_within_the_grace(tmp_path):
    async def story():
        crew = KeyedCrew(tmp_path, f"sqlite:///{tmp_path}/work.db", failing=0.0)
        try:
            await crew.start("a", "b", "c", static=True)
            async with fed(crew):
                await crew.until(lambda: crew.runs_after(0, "a", "b", "c"), "work of all")
                await crew.until_settled(3)
                settled = now()
                for name in ("a", "b", "c"):
                    await crew.leave(name)
                    await crew.start(name, static=True)
                    began = now()
                    await crew.until(lambda at=began: crew.runs_after(at, "a", "b", "c"), "work after a restart")
            judged(crew)
            return settled, read(crew.log), crew.names
        finally:
            crew.end()
            await crew.queue.close()

    settled, lines, names = asyncio.run(asyncio.wait_for(story(), 120))
    workers = {}
    for line in lines:
        if line.word == "begun" and line.at > settled:
            workers.setdefault(line.key, set()).add(names[line.pid])
    assert dict.fromkeys(workers, 1) == {key: len(found) for key, found in workers.items()}
    assert ({"a", "b", "c"}, KEYS) == (set.union(*workers.values()), len(workers))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seconds", [SHORT, pytest.param(LONG, marks=pytest.mark.soak)], ids=["short", "long"])
@pytest.mark.parametrize("cut", ["all", "one"])
def test_order_and_lock_stay_while_the_group_in_etcd_is_cut_off(tmp_path, cut, seconds, record_property):
    async def story(rig):
        proxy = Proxy(rig.address())
        await proxy.open()
        crew = KeyedCrew(tmp_path, f"sqlite:///{tmp_path}/work.db", rig.url("keyed", address=proxy.address))
        try:
            await crew.start("a")
            await crew.start("b", "c", group_url=None if cut == "all" else rig.url("keyed"))
            async with fed(crew):
                await crew.until(lambda: crew.runs_after(0, "a", "b", "c"), "work of all")
                await crew.add(1, RUN_SECONDS)  # some of these runs outlive the session in the group
                proxy.silence()
                healed = now() + seconds
                await crew.until(lambda: now() > healed, "the end of the cut", seconds=2 * seconds)
                proxy.heal()
                await crew.until(lambda: crew.runs_after(healed, "a", "b", "c"), "work after the cut")
            return judged(crew), healed, read(crew.log), crew.names
        finally:
            crew.end()
            await crew.queue.close()
            await proxy.close()

    with engine("etcd") as rig:
        _, healed, lines, names = asyncio.run(asyncio.wait_for(story(rig), 120 + seconds))
    begun = {
        name: min(line.at for line in lines if _is_run(line, healed) and names[line.pid] == name) for name in "abc"
    }
    record_property("served again after seconds", {name: round(at - healed, 2) for name, at in begun.items()})
    late = [line for line in lines if line.word == "begun" and healed - SHORT / 4 < line.at < healed]
    if cut == "all":
        assert [] == late
    else:
        assert {"b", "c"} == {names[line.pid] for line in late}
