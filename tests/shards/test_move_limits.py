"""The limit of the log that a source keeps for a move: the move is aborted with a reason, and leaves nothing."""

import asyncio

import pytest

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.shards.channel import LogSize
from apportion.shards.mover.fence_time import FENCE_SECONDS
from apportion.shards.mover.limits import MoveLimits
from tests.shards.move_rig import GROUP, SET, FakeShard, Killed, kill, moved, token, wish

LIMITS = MoveLimits(wal_bytes=1_000)
LARGE, SMALL, LOST = LogSize(bytes=1_001), LogSize(bytes=1_000), LogSize(bytes=0, is_lost=True)


def ran(rig, **options):
    mover = rig.mover(LIMITS)

    async def run():
        entry = await mover.run(GROUP.move, token(1), **options)
        return entry, mover.reasons[GROUP.move]

    return run()


def grows(rig, point, log, seconds=1.0):
    """Let the log have a size from a stop point on. After a second, the next look asks for it."""

    def at():
        rig.log.kept = log
        rig.clock.now += seconds

    rig.at[point] = at


@pytest.mark.parametrize("point", ["prepare.after", "chunk.after", "verify.after"])
@pytest.mark.parametrize(
    ("log", "words"),
    [
        (LARGE, "move m1 was aborted: shard one kept 1.0 kB of WAL for it, more than 1.0 kB. Look why shard two"),
        (
            LOST,
            "move m1 was aborted: the server of shard one has deleted WAL that shard two still needed. Raise max_slo",
        ),
    ],
)
def test_a_move_whose_source_keeps_too_much_is_aborted_with_a_reason_and_leaves_nothing(point, log, words):
    async def play(rig):
        grows(rig, point, log)
        return await ran(rig), await rig.keys()

    rig, ((entry, why), keys) = moved(play)
    assert entry is None
    assert why.startswith(words)
    assert [why] == [event.why for event in rig.events if event.step == "ends"]
    assert (None, {}, {}, []) == (rig.one.log, rig.two.slots, rig.two.rows, [key for key in keys if "mov" in key])
    assert all(rig.one.write(slot, 0, 7) for slot in GROUP.slots)
    assert [] == rig.log.gone


def test_a_move_within_the_limit_goes_on_and_its_source_is_asked_once_per_second_and_never_under_a_fence():
    async def play(rig):
        rig.log.kept = SMALL
        grows(rig, "intent.after", SMALL)
        grows(rig, "fence.after", LARGE, 0.4)
        return await ran(rig)

    rig, (entry, why) = moved(play)
    assert ("complete", "", 1) == (entry.record.state, why, rig.log.asked)


async def until(is_so, clock):
    """Let time pass until something is so."""
    async with asyncio.timeout(5):
        while not is_so():
            clock.now += 0.3
            await asyncio.sleep(0.005)


def test_the_log_is_let_go_while_the_target_is_away_and_the_rest_goes_when_it_is_back():
    async def play(rig):
        def leave():
            rig.two.is_away, rig.log.kept = True, LARGE

        rig.at["chunk.after"] = leave
        work = asyncio.create_task(ran(rig))
        await until(lambda: rig.log.gone, rig.clock)
        still = dict(rig.two.slots)
        assert all(rig.one.write(slot, 0, 7) for slot in GROUP.slots)
        rig.two.is_away = False
        await until(work.done, rig.clock)
        return still, work.result(), await rig.keys()

    rig, (still, (entry, why), keys) = moved(play)
    assert list(GROUP.slots) == list(still)
    assert (None, {}, []) == (entry, rig.two.slots, [key for key in keys if "mov" in key])
    assert "more than 1.0 kB" in why
    assert f"shards/{SET}/set" not in keys


def test_an_error_of_a_channel_whose_log_is_lost_ends_as_an_abort_with_a_reason():
    async def play(rig):
        rig.channels.trouble = InvalidInput("replication slot", "lost", "there", "Abort.")

        def lose():
            rig.log.kept = LOST

        rig.at["verify.before"] = lose
        return await ran(rig)

    rig, (entry, why) = moved(play)
    assert (None, {}) == (entry, rig.two.slots)
    assert "deleted WAL" in why


def test_an_error_of_a_channel_whose_log_is_small_is_raised_as_before():
    async def play(rig):
        rig.channels.trouble, rig.log.kept = InvalidInput("replication slot", "lost", "there", "Abort."), SMALL
        with pytest.raises(InvalidInput):
            await ran(rig)
        return await rig.keys()

    assert any("move/m1" in key for key in moved(play)[1])


def test_a_rescue_aborts_nothing():
    async def play(rig):
        rig.log.kept = LARGE
        return await ran(rig, is_rescue=True)

    rig, (entry, why) = moved(play)
    assert ("planned", "", 0) == (entry.record.state, why, rig.log.asked)


def late(rig, times):
    """Let the first fences be late."""

    def slow():
        rig.clock.now += FENCE_SECONDS + 0.1
        late(rig, times - 1)

    if times:
        rig.at["fence.after"] = slow


@pytest.fixture
def naps(monkeypatch):
    """Let the clock jump instead of each sleep."""
    sleep, rigs = asyncio.sleep, []

    async def asked(seconds):
        rigs[0].clock.now += seconds
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", asked)
    return rigs


def test_a_move_rests_after_its_attempts_and_the_next_mover_goes_on(naps):
    async def play(rig):
        naps.append(rig)
        late(rig, 4)
        mover = rig.mover(MoveLimits(attempts=3))
        rested = await mover.run(GROUP.move, token(1))
        is_written = rig.one.write(2, 0, 7)
        await wish(rig, "go")
        return rested, mover.reasons[GROUP.move], is_written, await rig.mover().run(GROUP.move, token(2))

    rig, (rested, why, is_written, entry) = moved(play)
    assert ("catching-up", "pause", 4) == (rested.record.state, rested.wish, rested.record.attempt)
    said = "move m1 rests after 3 attempts to switch: changes did not reach shard two within 0.5 s. Its slots stay on "
    assert why.startswith(said)
    assert [why] == [event.why for event in rig.events if event.step == "rests"]
    assert is_written
    assert ("complete", 7) == (entry.record.state, rig.two.rows[2, 0])


def test_a_lock_that_others_hold_is_named_when_the_move_rests(naps, monkeypatch):
    change, blocker = FakeShard.change, "others held a lock of its tables for 10 s: process 7 of app for 60 s"

    async def refused(shard, group, change_, token_):
        if change_.after == "fenced":
            raise StoreUnavailable("shard one", blocker)
        await change(shard, group, change_, token_)

    async def play(rig):
        naps.append(rig)
        monkeypatch.setattr(FakeShard, "change", refused)
        mover = rig.mover(MoveLimits(attempts=2))
        entry = await mover.run(GROUP.move, token(1))
        return entry, mover.reasons[GROUP.move], rig.labels.count("fence.before")

    _, (entry, why, count) = moved(play)
    assert ("catching-up", "pause", 2) == (entry.record.state, entry.wish, count)
    assert why.startswith(f"move m1 rests after 2 attempts to switch: {blocker}. Its slots stay on shard one. End ")


def test_a_rescue_lets_no_move_rest(naps):
    async def play(rig):
        naps.append(rig)
        mover = rig.mover(MoveLimits(attempts=1))
        rig.at["fence.after"] = kill
        with pytest.raises(Killed):
            await mover.run(GROUP.move, token(1))
        return await rig.mover(MoveLimits(attempts=1)).run(GROUP.move, token(2), is_rescue=True)

    entry = moved(play)[1]
    assert ("catching-up", "go") == (entry.record.state, entry.wish)
