"""The mover on its way back: kills at each step, refusals, and the end of the way back by `clean` and by `abort`."""

import pytest

from apportion.errors import Conflict, InvalidInput
from apportion.shards.mover import look
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.reversal import reverse
from apportion.shards.mover.stop_points import labels
from apportion.tables.layout import Version
from tests.shards.move_rig import GROUP, SET, Killed, kill, moved, token

STEPS = [
    "reverse", "prepare", "record", "apply-log", "verify", "intent", "fence", "drain", "announce", "switch", "settle",
    "uncapture",
]  # fmt: skip


async def entry_of(rig):
    return (await MoveBook(rig.store, SET, rig.clock).read()).kept[GROUP.move].entry


@pytest.fixture(autouse=True)
def near(monkeypatch):
    """Let a few entries be a long log."""
    monkeypatch.setattr(look, "NEAR_ROWS", 3)


def write_there(rig, count=8):
    """Write after the switch: change, delete, and add rows."""
    newest = Version(incarnation=1, number=2)
    written = {(2 + number % 2, 1 + number): number for number in range(count)}
    assert all(rig.two.write(*place, value, newest) for place, value in written.items())
    return written


def check_back(rig, written):
    assert written == {each: rig.one.rows.get(each) for each in written}
    assert ("owner", "moved") == (rig.one.slots[2].state, rig.two.slots[2].state)
    assert 0 == rig.back.copied


def test_a_switch_is_undone_and_only_logged_rows_are_copied():
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1))
        written = write_there(rig)
        rig.labels.clear()
        entry = await reverse(rig.mover(), GROUP.move, token(2))
        assert ("complete", 2, "back") == (entry.record.state, entry.record.attempt, entry.record.way)
        assert (GROUP.target, GROUP.source) == (entry.group.source, entry.group.target)
        return written, await rig.owners()

    rig, (written, owners) = moved(play, is_reversible=True)
    check_back(rig, written)
    assert ["one"] * 8 == owners
    steps = [label.removesuffix(".after") for label in rig.labels if label.endswith(".after")]
    assert ["reverse", "prepare", "record", "apply-log"] == steps[:4]
    assert ["fence", "drain", "drain", "drain", "announce", "switch", "settle", "settle"] == steps[-10:-2]
    assert not {"capture", "chunk", "capture-back"} & set(steps)


def test_a_target_logs_before_the_fence_and_only_for_a_reversible_move():
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1))

    rig, _ = moved(play, is_reversible=True)
    assert rig.labels.index("verify.after") < rig.labels.index("capture-back.before") < rig.labels.index("fence.before")
    assert rig.two.log is not None
    rig, _ = moved(play)
    assert rig.two.log is None


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_mover_that_was_killed_on_the_way_back_is_followed_by_one_that_goes_on(step, side):
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1))
        written = write_there(rig)
        rig.at = {f"{step}.{side}": kill}
        with pytest.raises(Killed):
            await reverse(rig.mover(), GROUP.move, token(2))
        if (step, side) != ("reverse", "before"):
            assert "back" == (await entry_of(rig)).record.way
            await rig.mover().run(GROUP.move, token(3))
        if (await entry_of(rig)).record.way != "back":
            await reverse(rig.mover(), GROUP.move, token(3))
        assert await rig.mover().run(GROUP.move, token(4), cleans=True) is None
        return written, await rig.keys()

    rig, (written, keys) = moved(play, is_reversible=True)
    check_back(rig, written)
    assert ([], None, None) == (keys, rig.one.log, rig.two.log)
    assert not [each for each in rig.two.rows if each[0] in GROUP.slots]


def test_a_write_before_each_act_of_both_ways_is_on_the_shard_that_owns_the_slot():
    async def play(rig):
        written, count = {}, 0

        def write():
            nonlocal count
            newest = 1 + rig.labels.count("switch.after")  # no router has a later version
            for base, version in ((rig.one, 1), (rig.two, 2), (rig.one, 3)):
                if version <= newest and base.write(2, count, count, Version(incarnation=1, number=version)):
                    written[2, count] = count
            count += 1

        for turn in (rig.mover().run, lambda move, mine: reverse(rig.mover(), move, mine)):
            rig.at = dict.fromkeys(labels(), write)
            await turn(GROUP.move, token(1))
        return written

    rig, written = moved(play, is_reversible=True)
    assert len(written) > 20
    check_back(rig, written)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", STEPS[1:9])
def test_an_abort_on_the_way_back_leaves_the_slots_where_they_are(step, side):
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1))
        written = write_there(rig)
        rig.at = {f"{step}.{side}": kill}
        with pytest.raises(Killed):
            await reverse(rig.mover(), GROUP.move, token(2))
        book = rig.mover().book
        kept = (await book.read()).kept[GROUP.move]
        assert await book.write(kept, kept.entry.wished("abort"))
        assert await rig.mover().run(GROUP.move, token(3)) is None
        return written, await rig.owners(), await rig.keys()

    rig, (written, owners, keys) = moved(play, is_reversible=True)
    assert (["two", "two"], []) == (owners[2:4], keys)
    assert written == {each: rig.two.rows.get(each) for each in written}
    assert (None, None) == (rig.one.log, rig.two.log)
    assert not [each for each in rig.one.rows if each[0] in GROUP.slots]
    assert rig.two.write(2, 0, 1, Version(incarnation=1, number=2))


def test_a_clean_up_ends_the_way_back_before_it_deletes_a_row():
    async def play(rig):
        await rig.mover().run(GROUP.move, token(1))
        rig.at = {"clean-batch.before": kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1), cleans=True)
        assert "one-way" == (await entry_of(rig)).record.way
        with pytest.raises(Conflict, match=r"has no way back: .* or clean has begun"):
            await reverse(rig.mover(), GROUP.move, token(2))
        assert 6 == len([each for each in rig.one.rows if each[0] in GROUP.slots])
        assert await rig.mover().run(GROUP.move, token(2), cleans=True) is None

    rig, _ = moved(play, is_reversible=True)
    assert (None, None) == (rig.one.log, rig.two.log)


def test_a_forward_move_that_is_aborted_leaves_no_log_on_either_shard():
    async def play(rig):
        rig.at = {"announce.after": kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        kept = (await rig.mover().book.read()).kept[GROUP.move]
        assert await rig.mover().book.write(kept, kept.entry.wished("abort"))
        assert await rig.mover().run(GROUP.move, token(2)) is None
        return await rig.keys()

    rig, keys = moved(play, is_reversible=True)
    assert ([], None, None) == (keys, rig.one.log, rig.two.log)


REFUSED = {
    "unknown": (InvalidInput, "move is 'm9', expected one of m1"),
    "unfinished": (Conflict, "move m1 is planned: its slots are still on one"),
    "one-way": (Conflict, "move m1 has no way back: it was applied without --reversible"),
    "twice": (Conflict, "move m1 is reversed already: its slots are on one"),
    "gap": (InvalidInput, "log of move m1 on shard two is 'incomplete'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_reversal_that_cannot_be_is_refused_and_changes_nothing(case):
    error, words = REFUSED[case]

    async def play(rig):
        if case != "unfinished":
            await rig.mover().run(GROUP.move, token(1))
        if case == "twice":
            await reverse(rig.mover(), GROUP.move, token(1))
        if case == "gap":
            rig.two.log = None
        before = await entry_of(rig), dict(rig.one.slots), dict(rig.two.slots)
        with pytest.raises(error, match=words) as refused:
            await reverse(rig.mover(), "m9" if case == "unknown" else GROUP.move, token(2))
        assert refused.value.hint
        assert before == (await entry_of(rig), rig.one.slots, rig.two.slots)

    moved(play, is_reversible=case != "one-way")


def test_a_paused_move_that_has_switched_is_settled_before_it_is_reversed():
    async def play(rig):
        rig.at = {"switch.after": kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        book = rig.mover().book
        kept = (await book.read()).kept[GROUP.move]
        assert await book.write(kept, kept.entry.wished("pause"))
        return await reverse(rig.mover(), GROUP.move, token(2))

    rig, entry = moved(play, is_reversible=True)
    assert ("complete", "back", "go") == (entry.record.state, entry.record.way, entry.wish)
    check_back(rig, {})
