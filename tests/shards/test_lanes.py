"""Groups that move at once: as many as there are lanes, and a pause, an error, a signal or a kill acts as with one."""

import asyncio
import os
import signal
import subprocess
import sys
from uuid import UUID

import pytest

import apportion
from apportion.errors import InvalidInput
from apportion.shards import admin
from apportion.shards.admin import carrier, ends
from apportion.shards.admin.lanes import MoveLanes, MovesMade, beside_of
from apportion.shards.move_group import MoveGroup
from apportion.shards.plan import encode_shard_plan
from apportion.shards.records import ShardRecord
from tests.shards.sample import SET, Base, Files, Place

SHARDS = ("one", "two", "three")


def group(move, source="one", target="two"):
    return MoveGroup(move=move, source=source, target=target, slots=(1,))


class Mover:
    def __init__(self):
        self.reasons = {}


class Play:
    """Runs groups in lanes. A group ends when the test says so."""

    def __init__(self, count, beside=lambda *_: True):
        self.begun, self.ends, self.cancelled = [], {}, []
        self._lanes = MoveLanes([Mover() for _ in range(count)], self._run, may_run_beside=beside)

    async def _run(self, mover, group):
        self.begun.append(group.move)
        self.ends[group.move] = asyncio.get_running_loop().create_future()
        try:
            is_over = await self.ends[group.move]
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it ends its fence
            self.cancelled.append(group.move)
            raise
        if not is_over:
            mover.reasons[group.move] = f"{group.move} rests"
        return is_over

    def start(self, groups):
        return asyncio.ensure_future(self._lanes.made(groups))

    async def end(self, move, is_over=True):
        self.ends[move].set_result(is_over)
        await settled()


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_so_many_groups_run_at_once_and_the_next_one_begins_when_one_ends():
    async def main():
        play = Play(2)
        work = play.start([group(each) for each in "abc"])
        await settled()
        assert ["a", "b"] == play.begun
        await play.end("b")
        assert ["a", "b", "c"] == play.begun
        await play.end("c")
        await play.end("a")
        assert MovesMade(moves=("b", "c", "a")) == await work

    asyncio.run(main())


def test_after_a_move_that_rests_no_other_begins_and_those_under_way_go_on():
    async def main():
        play = Play(2)
        work = play.start([group(each) for each in "abc"])
        await settled()
        await play.end("a", is_over=False)
        assert (["a", "b"], []) == (play.begun, play.cancelled)
        await play.end("b")
        assert MovesMade(moves=("b",), is_whole=False, why="a rests") == await work

    asyncio.run(main())


def test_after_an_error_the_others_end_their_fences_before_it_is_raised():
    async def main():
        play = Play(2)
        work = play.start([group(each) for each in "abc"])
        await settled()
        play.ends["b"].set_exception(InvalidInput("rows", 1, "2", "Look."))
        with pytest.raises(InvalidInput):
            await work
        assert (["a", "b"], ["a"]) == (play.begun, play.cancelled)

    asyncio.run(main())


def test_a_call_that_is_cancelled_waits_for_the_ends_of_all_fences():
    async def main():
        play = Play(3)
        work = play.start([group(each) for each in "abc"])
        await settled()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert ["a", "b", "c"] == sorted(play.cancelled)

    asyncio.run(main())


def test_a_group_waits_for_one_that_it_may_not_run_beside_and_a_later_one_goes_first():
    async def main():
        play = Play(2, lambda one, other: one.target != other.target)
        work = play.start([group("a"), group("b"), group("c", target="three")])
        await settled()
        assert ["a", "c"] == play.begun
        await play.end("a")
        assert ["a", "c", "b"] == play.begun
        await play.end("b")
        await play.end("c")
        assert (await work).is_whole

    asyncio.run(main())


def test_files_take_one_writer_and_servers_take_several():
    files = beside_of({shard: ShardRecord(url=f"sqlite:///{shard}.db") for shard in SHARDS})
    servers = beside_of({shard: ShardRecord(url=f"postgresql://h/{shard}") for shard in SHARDS})
    a = group("a")
    others = [group("b"), group("b", target="three"), group("b", "two", "three"), group("b", "three", "one")]
    assert [False, True, False, False] == [files(a, each) for each in others]
    assert [True] * 4 == [servers(a, each) for each in others]


@pytest.fixture
def files(tmp_path):
    """A set on three files, with some rows in each slot."""
    files = Files(tmp_path, shards=SHARDS)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number in range(200):
            with router.session(f"C{number}") as session:
                session.add(Place(id=UUID(int=number), country=f"C{number}"))
                session.commit()
    return files


def drained(files):
    """Return the plan that gives the slots of shard one to the two others."""
    plan = asyncio.run(admin.plan(files.url, SET, weights={"one": 0.0}))
    assert [("one", "three"), ("one", "two")] == sorted((move.source, move.target) for move in plan.moves)
    return plan


def applied(files, plan=None, **options):
    return asyncio.run(admin.apply(files.url, SET, plan, **{"parallel": 2, **options}))


def whole(files):
    found = asyncio.run(admin.verify(files.url, SET, base=Base))
    return found.rows, found.faulty, sum(each.slots for each in asyncio.run(admin.status(files.url, SET)).shards)


def test_two_groups_of_one_source_move_at_once_between_files(files):
    events = []
    made = applied(files, drained(files), observer=lambda event: events.append((event.step, event.group.move)))
    assert (2, True) == (len(made.moves), made.is_whole)
    steps = [step for step, _ in events]
    assert steps.count("list") == steps.count("switch") == 2
    assert [step for step in steps if step in ("list", "switch")] == ["list", "list", "switch", "switch"]
    assert (200, 0, 64) == whole(files)


def test_one_group_moves_at_a_time_by_default(files):
    steps = []
    made = applied(files, drained(files), parallel=1, observer=lambda event: steps.append(event.step))
    assert made.is_whole
    assert [step for step in steps if step in ("list", "switch")] == ["list", "switch"] * 2


def test_moves_at_once_have_one_rate(files, monkeypatch):
    made, rate = [], carrier.CopyRate

    def counted(*words):
        made.append(rate(*words))
        return made[-1]

    monkeypatch.setattr(carrier, "CopyRate", counted)
    assert applied(files, drained(files), bytes_per_second=1e9).is_whole
    assert 1 == len(made)


@pytest.mark.parametrize("wrong", [0, -1, 65, 1.5, True, "2", None])
def test_a_wrong_number_of_moves_at_once_is_refused(files, wrong):
    with pytest.raises(InvalidInput, match="parallel is "):
        applied(files, parallel=wrong)


@pytest.mark.parametrize("wrong", ["plan.json", b"{}", ()])
def test_anything_but_a_plan_is_refused(files, wrong):
    with pytest.raises(InvalidInput, match="expected a ShardPlan, or None"):
        asyncio.run(admin.apply(files.url, SET, wrong))


@pytest.mark.parametrize("word", ["pause", "abort"])
def test_a_wish_is_heard_by_all_moves_at_once(files, word):
    plan, heard = drained(files), []

    def wished(event):
        if event.step == "capture":
            heard.append(event.group.move)
        if len(set(heard)) == 2 and "asked" not in heard:
            heard.append("asked")
            asyncio.run_coroutine_threadsafe(ends.wish(files.url, SET, word), asyncio.get_running_loop())

    made = applied(files, plan, observer=wished)
    if made.is_whole:
        pytest.fail("the movers were faster than the wish")
    left = asyncio.run(admin.status(files.url, SET)).moves
    assert all(move.wish == "pause" for move in left if move.state != "complete")
    assert applied(files, plan).is_whole
    assert (200, 0, 64) == whole(files)


FENCED = "SELECT count(*) FROM apportion_slot WHERE state = 'fenced'"


PROGRAM = """
import asyncio, os, signal, sys
from apportion.shards import admin
from apportion.shards.plan import decode_shard_plan
cuts = []
def cut(event):
    if event.step == sys.argv[3] and not cuts:
        cuts.append(os.kill(os.getpid(), signal.SIGINT))
plan = decode_shard_plan(open(sys.argv[2], "rb").read())
asyncio.run(admin.apply(sys.argv[1], "world", plan, parallel=2, observer=cut))
"""


@pytest.mark.live
@pytest.mark.parametrize("step", ["verify", "fence", "announce"])
def test_an_interrupted_process_leaves_no_fence_and_the_next_one_goes_on(files, step):
    plan = drained(files)
    saved = files.folder / "plan.json"
    saved.write_bytes(encode_shard_plan(plan))
    words = [sys.executable, "-c", PROGRAM, files.url, str(saved), step]
    ended = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert b"KeyboardInterrupt" in ended.stderr
    assert [(0,)] == files.sql("one", FENCED)
    assert applied(files, plan).is_whole
    assert (200, 0, 64) == whole(files)


@pytest.mark.live
@pytest.mark.parametrize("stop", ["chunk.after:2", "verify.before:2", "fence.after", "switch.after", "switch.after:2"])
def test_a_killed_process_is_followed_by_one_that_goes_on_with_all_moves(files, stop):
    plan = drained(files)
    saved = files.folder / "plan.json"
    saved.write_bytes(encode_shard_plan(plan))
    words = [sys.executable, "-m", "apportion.console.main", "shards", "apply", files.url, SET, str(saved)]
    killed = subprocess.run(
        [*words, "--parallel", "2"],
        env=os.environ | {"APPORTION_SHARDS_STOP_AT": stop},
        capture_output=True,
        check=False,
    )
    assert -signal.SIGKILL == killed.returncode, killed.stderr
    assert applied(files, plan).is_whole
    assert (200, 0, 64) == whole(files)


def test_a_cancelled_caller_waits_until_the_work_has_ended_its_fences():
    ended = []

    async def main():
        here, begun = asyncio.get_running_loop(), asyncio.Event()

        async def work():
            here.call_soon_threadsafe(begun.set)
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(1_000):
                    await asyncio.sleep(0)
                ended.append("fence")

        caller = asyncio.ensure_future(carrier._heard_out(work))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert ["fence"] == ended

    asyncio.run(main())
