"""The mover: it moves a group, ends what another one began, retreats, aborts, pauses, and waits for what is away."""

import asyncio

import pytest

from apportion.errors import Conflict, Fenced, InvalidInput
from apportion.shards.mover.course import REST_SECONDS
from apportion.shards.mover.fence_time import FENCE_SECONDS
from apportion.shards.mover.stop_points import labels
from apportion.shards.slot_rows import SlotRow
from apportion.tables.layout import Version
from tests.shards.move_rig import GROUP, FakeShard, Killed, kill, moved, token, until, wish


def test_a_group_moves_with_its_rows_and_nothing_is_left_after_the_clean_up():
    async def play(rig):
        complete = await rig.mover().run(GROUP.move, token(1))
        assert "complete" == complete.record.state
        assert ["one", "one", "two", "two", "one", "one", "one", "one"] == await rig.owners()
        assert ("moved", "owner") == (rig.one.slots[2].state, rig.two.slots[2].state)
        assert {each for each in rig.one.rows if each[0] in GROUP.slots} == set(rig.two.rows)
        assert await rig.mover().run(GROUP.move, token(1), cleans=True) is None
        return await rig.keys()

    rig, keys = moved(play)
    assert [] == keys
    assert not [each for each in rig.one.rows if each[0] in GROUP.slots]
    assert rig.one.log is None
    assert 6 == len(rig.two.rows)


def test_the_target_accepts_the_version_that_was_published_and_no_older_one():
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1))

    rig, _ = moved(play)
    assert SlotRow(state="owner", number=Version(incarnation=1, number=2)) == rig.two.slots[2]
    assert not rig.two.write(2, 0, 9, Version(incarnation=1, number=1))
    assert rig.two.write(2, 0, 9, Version(incarnation=1, number=2))
    assert not rig.one.write(2, 0, 9, Version(incarnation=1, number=2))


def test_a_write_before_each_act_is_on_the_shard_that_owns_the_slot():
    async def play(rig):
        written, count = {}, 0

        def write():
            nonlocal count
            newest = 1 + rig.labels.count("switch.after")  # no router has a later version
            for base, version in ((rig.one, 1), (rig.two, 2)):
                if version <= newest and base.write(2, count, count, Version(incarnation=1, number=version)):
                    written[2, count] = count
            count += 1

        rig.at = dict.fromkeys(labels(), write)
        await rig.mover().run(GROUP.move, token(1))
        return written

    rig, written = moved(play)
    assert len(written) > 10
    assert written == {each: rig.two.rows.get(each) for each in written}


STEPS = [
    "prepare",
    "record",
    "capture",
    "chunk",
    "verify",
    "intent",
    "fence",
    "announce",
    "switch",
    "settle",
    "uncapture",
]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_mover_that_was_killed_is_followed_by_one_that_goes_on(step, side):
    async def play(rig):
        rig.at = {f"{step}.{side}": kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        copied = rig.channels.copied
        await rig.mover().run(GROUP.move, token(2), cleans=True)
        assert rig.channels.copied >= copied
        return await rig.owners(), await rig.keys()

    rig, (owners, keys) = moved(play)
    assert ("two", "two", []) == (*owners[2:4], keys)
    assert 6 == len(rig.two.rows)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_is_aborted_anywhere_before_the_switch_leaves_nothing(step, side):
    async def play(rig):
        rig.at = {f"{step}.{side}": kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        await wish(rig, "abort")
        state = await rig.mover().run(GROUP.move, token(2))
        return state, await rig.keys()

    rig, (state, keys) = moved(play)
    if state is None:
        assert ([], {}, {}, None) == (keys, rig.two.slots, rig.two.rows, rig.one.log)
        assert rig.one.write(2, 0, 1)
    else:
        assert "complete" == state.record.state
        assert (step, side) in [
            ("switch", "after"),
            *((each, when) for each in ("settle", "uncapture") for when in ("before", "after")),
        ]


def test_an_older_mover_is_fenced_and_changes_nothing():
    async def play(rig):
        rig.at = {"fence.after": kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(2))
        with pytest.raises(Fenced):
            await rig.mover().run(GROUP.move, token(1))

    rig, _ = moved(play)
    assert ("fenced", "incoming") == (rig.one.slots[2].state, rig.two.slots[2].state)


def test_a_log_that_does_not_drain_lets_the_source_go_on_and_then_the_mover_tries_again():
    async def play(rig):
        def stuck():
            rig.one.log.append((2, 0))
            rig.channels.is_stuck = True
            rig.at["drain.after"] = late

        def late():
            rig.clock.now += FENCE_SECONDS + 0.1
            rig.at["unfence.after"] = opened

        def opened():
            assert rig.one.write(2, 0, 5)
            rig.channels.is_stuck = False

        rig.at["fence.before"] = stuck
        work = asyncio.create_task(rig.mover().run(GROUP.move, token(1)))
        await until(work.done, rig.clock)
        return work.result()

    rig, entry = moved(play)
    assert ("complete", 2) == (entry.record.state, entry.record.attempt)
    assert 5 == rig.two.rows[2, 0]
    assert rig.labels.index("retreat.after") < rig.labels.index("unfence.before")


@pytest.mark.parametrize("word", ["pause", "abort"])
def test_a_target_that_is_away_does_not_keep_the_source_closed(word):
    async def play(rig):
        rig.at = {"fence.after": kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        rig.two.is_away = True
        await wish(rig, word)
        work = asyncio.create_task(rig.mover().run(GROUP.move, token(2)))
        while not rig.one.write(2, 0, 7):
            await asyncio.sleep(0)
        is_listed = bool(await rig.keys())
        rig.two.is_away = False
        return is_listed, await work

    _rig, (is_listed, entry) = moved(play)
    assert is_listed
    assert {"pause": "catching-up", "abort": None}[word] == (entry and entry.record.state)


def test_a_paused_move_goes_on_when_it_is_asked_to():
    async def play(rig):
        await wish(rig, "pause")
        assert "planned" == (await rig.mover().run(GROUP.move, token(1))).record.state
        await wish(rig, "go")
        return await rig.mover().run(GROUP.move, token(1))

    _, entry = moved(play)
    assert "complete" == entry.record.state


def test_a_channel_whose_changes_take_long_gets_no_fence():
    async def play(rig):
        rig.channels.far = 3
        await rig.mover().run(GROUP.move, token(1))

    rig, _ = moved(play)
    before = rig.labels[: rig.labels.index("intent.before")]
    assert 3 == before.count("apply-log.after")


def test_a_slow_control_store_gets_no_fence():
    async def play(rig):
        mover = rig.mover()
        commit, slow = rig.store.commit, iter([True, True, False])

        async def delayed(**each):
            outcome = await commit(**each)
            if rig.labels and rig.labels[-1] in ("record.before", "intent.before"):
                rig.clock.now += 2.0 * (rig.channels.verified is not None and next(slow, False))
            return outcome

        rig.store.commit = delayed
        return await mover.run(GROUP.move, token(1))

    rig, entry = moved(play)
    assert "complete" == entry.record.state
    assert 3 == rig.labels.count("intent.before")
    assert 1 == rig.labels.count("fence.before")


def test_an_error_that_no_waiting_mends_opens_the_source_and_is_raised():
    async def play(rig):
        def forget():
            rig.channels.verified, rig.channels.trouble = None, InvalidInput("rows", 1, "2", "Abort.")

        rig.at = {"fence.after": forget}
        with pytest.raises(InvalidInput, match="rows"):
            await rig.mover().run(GROUP.move, token(1))

    rig, _ = moved(play)
    assert rig.one.write(2, 0, 1)
    assert "tail.before" in rig.labels


def test_a_slot_cannot_move_twice_at_once():
    async def play(rig):
        other = GROUP.__class__(move="m2", source="one", target="two", slots=(3, 4))
        with pytest.raises(Conflict, match="slot 3 moves already, in move m1"):
            await rig.mover().begin(other)
        await rig.mover().begin(GROUP)  # the reply was lost: the same again changes nothing

    moved(play)


def test_a_move_is_not_listed_when_the_table_has_another_owner_by_then():
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1), cleans=True)
        again = GROUP.__class__(move="m2", source="one", target="two", slots=(3,))  # of a plan that is out of date
        with pytest.raises(Conflict, match="slot 3 is owned by two, not by one"):
            await rig.mover().begin(again)
        return await rig.keys()

    assert [] == moved(play)[1]


@pytest.mark.parametrize("word", ["go", "abort"])
def test_both_shards_are_guarded_again_before_a_move_is_released(word, monkeypatch):
    guards, guard = [], FakeShard.guard

    async def noted(shard, group, token):
        guards.append(shard.base)
        await guard(shard, group, token)

    async def play(rig):
        await wish(rig, word)
        monkeypatch.setattr(FakeShard, "guard", noted)
        assert await rig.mover().run(GROUP.move, token(1), cleans=True) is None
        return [sum(each is base for each in guards) for base in (rig.one, rig.two)]

    assert [2, 2] == moved(play)[1]


def test_another_table_that_comes_first_is_announced_anew():
    async def play(rig):
        def publish():
            rig.at["announce.after"] = lambda: tasks.append(asyncio.ensure_future(rig.found()))

        tasks = []
        rig.at["fence.after"] = publish
        return await rig.mover().run(GROUP.move, token(1))

    _, entry = moved(play)
    assert "complete" == entry.record.state


def test_events_tell_how_far_the_rows_have_come():
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1), rows=6)

    rig, _ = moved(play)
    chunks = [event for event in rig.events if event.step == "chunk"]
    assert [(0, 6), (2, 6), (4, 6)] == [(event.copied, event.rows) for event in chunks]
    assert ["settle", "settle", "record", "uncapture"] == [event.step for event in rig.events][-4:]


def test_a_capture_that_cannot_end_yet_delays_neither_the_move_nor_the_deletion_of_old_rows():
    async def play(rig):
        rig.channels.readers = 3
        entry = await rig.mover().run(GROUP.move, token(1))
        kept = rig.one.log
        await rig.mover().run(GROUP.move, token(1), cleans=True)
        return entry, kept, await rig.keys()

    rig, (entry, kept, keys) = moved(play)
    assert ("complete", [], None, []) == (entry.record.state, kept, rig.one.log, keys)
    last = [event.step for event in rig.events if event.step in ("waits", "clean-batch", "uncapture")]
    batches = ["clean-batch"] * 4
    assert ["waits", "waits", *batches, "waits", "uncapture", "clean-batch"] == last


def test_an_abort_ends_though_readers_keep_the_log_and_a_later_one_drops_it():
    async def play(rig):
        def meet_readers():
            rig.channels.readers, rig.at["uncapture.before"] = 5, pass_time

        def pass_time():
            rig.clock.now += REST_SECONDS / 3
            rig.at["uncapture.before"] = pass_time

        rig.at = {"chunk.after": kill, "uncapture.before": meet_readers}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        await wish(rig, "abort")
        entry = await rig.mover().run(GROUP.move, token(2))
        kept = rig.one.log
        await wish(rig, "go")
        return entry, kept, await rig.mover().run(GROUP.move, token(3)), await rig.keys()

    rig, (entry, kept, last, keys) = moved(play)
    assert ("aborted", [], None, []) == (entry.record.state, kept, last, keys)
    assert (None, {}, {}) == (rig.one.log, rig.two.slots, rig.two.rows)
    assert rig.one.write(2, 0, 7)


def test_a_mover_that_has_to_end_opens_a_fence_and_waits_for_no_store():
    class Over(Conflict):
        pass

    async def play(rig):
        mover, is_over = rig.mover(), []

        def check():
            if is_over:
                raise Over("the election has ended.", "Go on.")

        mover.check = check
        rig.at = {"fence.after": lambda: is_over.append(1)}
        with pytest.raises(Over):
            await mover.run(GROUP.move, token(1))
        opened = rig.one.slots[2].state
        rig.one.is_away = True
        with pytest.raises(Over):
            await asyncio.wait_for(mover.run(GROUP.move, token(1)), 10)
        return opened

    _, opened = moved(play)
    assert "owner" == opened
