"""A mover under its fence: no source stays closed after a refusal, a silence, a cancel or an error of an observer."""

import asyncio
from contextlib import suppress

import pytest

from apportion.errors import BadSnapshot, InvalidInput, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.fence_time import FENCE_SECONDS
from apportion.shards.records import SetKeys
from apportion.stores import Put, Unchanged
from apportion.tables import layout
from apportion.tables.layout import TableKeys, Version
from tests.shards.move_rig import GROUP, SET, Killed, kill, moved, token, until, wish


@pytest.mark.parametrize("point", ["fence.after", "announce.after"])
def test_a_target_that_refuses_a_mover_does_not_keep_the_source_closed_either(point):
    async def play(rig):
        rig.at = {point: kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        rig.two.refusal = StoreDenied("shard two", "rights were revoked", "Grant them.")
        with pytest.raises(StoreDenied):
            await rig.mover().run(GROUP.move, token(2))
        is_written = rig.one.write(2, 0, 7)
        rig.two.refusal = None
        return is_written, await rig.mover().run(GROUP.move, token(3))

    rig, (is_written, entry) = moved(play)
    assert is_written
    assert ("complete", 7) == (entry.record.state, rig.two.rows[2, 0])


def test_a_target_that_is_silent_under_the_fence_does_not_keep_the_source_closed():
    async def play(rig):
        rig.at = {"fence.after": rig.two.replies.clear}
        work = asyncio.create_task(rig.mover().run(GROUP.move, token(1)))
        async with asyncio.timeout(5):
            while "unfence.after" not in rig.labels:
                rig.clock.now += 0.02
                await asyncio.sleep(0.005)
        is_written = rig.one.write(2, 0, 7)
        rig.two.replies.set()
        await until(work.done, rig.clock)
        return is_written, work.result()

    rig, (is_written, entry) = moved(play)
    assert is_written
    assert ("complete", 2, 7) == (entry.record.state, entry.record.attempt, rig.two.rows[2, 0])


def test_the_table_is_in_memory_before_writers_wait(monkeypatch):
    labels, read_payload = [], layout.payload_of

    async def play(rig):
        monkeypatch.setattr(layout, "payload_of", lambda *of: labels.append(rig.labels[-1]) or read_payload(*of))
        return await rig.mover().run(GROUP.move, token(1))

    _, entry = moved(play)
    assert "complete" == entry.record.state
    assert {"intent.before"} == {*labels}


@pytest.mark.parametrize("key", [TableKeys(SET).head, SetKeys(SET).moving])
@pytest.mark.parametrize("point", ["intent.after", "fence.after", "announce.after", "switch.after"])
def test_a_damaged_table_or_list_of_moving_slots_does_not_keep_a_slot_closed(point, key):
    async def write(rig, value):
        """Write a value under the key, whatever it holds; return the old value."""
        [item] = [item for item in (await rig.store.scan(key)).items if item.key == key]
        await rig.store.commit(when=[Unchanged(key=key, revision=item.revision)], puts=[Put(key=key, value=value)])
        return item.value

    async def play(rig):
        rig.at = {point: kill}
        with pytest.raises(Killed):
            await rig.mover().run(GROUP.move, token(1))
        kept = await write(rig, b"{")
        with pytest.raises(BadSnapshot):
            await rig.mover().run(GROUP.move, token(2))
        owner, newest = (rig.two, 2) if point == "switch.after" else (rig.one, 1)
        is_written = owner.write(2, 0, 7, Version(incarnation=1, number=newest))
        await write(rig, kept)
        return is_written, await rig.mover().run(GROUP.move, token(3))

    rig, (is_written, entry) = moved(play)
    assert is_written
    assert ("complete", 7) == (entry.record.state, rig.two.rows[2, 0])


@pytest.mark.parametrize("point", ["intent.after", "fence.after", "announce.after", "switch.after"])
def test_a_mover_that_is_cancelled_lets_writers_go_on(point):
    async def play(rig):
        work = asyncio.create_task(rig.mover().run(GROUP.move, token(1)))
        rig.at = {point: work.cancel}
        with pytest.raises(asyncio.CancelledError):
            await work
        newest = Version(incarnation=1, number=2)
        return rig.one.write(2, 0, 7), rig.two.write(2, 0, 7, newest), await rig.mover().run(GROUP.move, token(2))

    rig, (is_on_source, is_on_target, entry) = moved(play)
    assert (point != "switch.after", point == "switch.after") == (is_on_source, is_on_target)
    assert ("complete", 7) == (entry.record.state, rig.two.rows[2, 0])


DENIED = StoreDenied("shard two", "it refuses this user or password", "Check both in the URL.")


def denied_at(rig, point, base):
    """Run a mover that a shard denies from a point on; return its task when it waits."""

    def deny():
        base.refusal = DENIED

    rig.at = {point: deny}
    return asyncio.create_task(rig.mover().run(GROUP.move, token(1)))


def waits(rig):
    return [event.why for event in rig.events if event.step == "waits"]


@pytest.mark.parametrize("point", ["chunk.after", "intent.after", "fence.after", "announce.after"])
def test_a_target_that_denies_a_mover_in_the_middle_is_waited_for_as_if_it_were_away(point):
    async def play(rig):
        work = denied_at(rig, point, rig.two)
        await until(lambda: waits(rig) and rig.one.slots[2].state == "owner", rig.clock)
        is_written = rig.one.write(2, 0, 7)
        rig.two.refusal = None
        await until(work.done, rig.clock)
        return is_written, work.result()

    rig, (is_written, entry) = moved(play)
    assert is_written
    assert ("complete", 7) == (entry.record.state, rig.two.rows[2, 0])
    assert DENIED.problem in waits(rig)


def test_a_source_that_denies_a_mover_in_the_middle_is_waited_for():
    async def play(rig):
        work = denied_at(rig, "fence.after", rig.one)
        await until(lambda: waits(rig), rig.clock)
        rig.one.refusal = None
        return await asyncio.wait_for(work, 5)

    assert "complete" == moved(play)[1].record.state


def test_a_wish_to_abort_is_heard_while_a_shard_denies_the_mover():
    async def play(rig):
        work = denied_at(rig, "chunk.after", rig.two)
        await until(lambda: waits(rig), rig.clock)
        await wish(rig, "abort")
        await until(lambda: rig.events[-1].state == "aborted", rig.clock)
        rig.two.refusal = None
        return await asyncio.wait_for(work, 5)

    assert moved(play)[1] is None


def late(rig, times):
    """Let the first fences be late."""

    def slow():
        rig.clock.now += FENCE_SECONDS + 0.1
        late(rig, times - 1)

    if times:
        rig.at["fence.after"] = slow


@pytest.fixture
def rests(monkeypatch):
    """Let the clock jump instead of each sleep. Return the asked times, each with the count of retreats before it."""
    sleep = asyncio.sleep

    class Rests(list):
        rig = None

    async def asked(seconds):
        if seconds > 0.1:
            rests.append((rests.rig.labels.count("retreat.after"), seconds, rests.rig.one.write(2, 0, 7)))
            rests.rig.clock.now += seconds
        await sleep(0)

    rests = Rests()
    monkeypatch.setattr(asyncio, "sleep", asked)
    return rests


def test_writers_go_on_for_longer_after_each_retreat(rests):
    async def play(rig):
        rests.rig = rig
        late(rig, 3)
        return await rig.mover().run(GROUP.move, token(1))

    rig, entry = moved(play)
    assert ("complete", 4) == (entry.record.state, entry.record.attempt)
    assert [0.5, 1.0, 2.0] == [sum(rest for after, rest, _ in rests if after == count) for count in (1, 2, 3)]
    assert all(is_open for _, _, is_open in rests)
    retried = rig.labels[rig.labels.index("retreat.after") :]
    assert len(rests) - len({after for after, _, _ in rests}) <= retried.count("apply-log.after")


@pytest.mark.parametrize(("word", "state"), [("abort", "aborted"), ("pause", "catching-up")])
def test_a_wish_ends_the_time_before_the_next_attempt(rests, word, state):
    async def play(rig):
        rests.rig = rig
        late(rig, 9)

        async def wishes():
            while not rests:
                await asyncio.sleep(0)
            await wish(rig, word)

        other = asyncio.create_task(wishes())
        entry = await rig.mover().run(GROUP.move, token(1))
        async with asyncio.timeout(1):
            await other
        return entry

    rig, entry = moved(play)
    assert (1, 2) == (rig.labels.count("fence.after"), rig.labels.count("retreat.after") + 1)
    assert entry is None if word == "abort" else state == entry.record.state


class Fussy(list):
    """The events of a move up to one that this observer refuses."""

    def __init__(self, step, error):
        super().__init__()
        self.step, self.error = step, error

    def append(self, event):
        super().append(event.step)
        if event.step == self.step:
            raise self.error


@pytest.mark.parametrize("step", ["intent", "fence", "announce", "switch"])
def test_an_observer_that_raises_lets_writers_go_on(step):
    async def play(rig):
        rig.events = heard = Fussy(step, KeyError(step))
        with pytest.raises(KeyError, match=step):
            await rig.mover().run(GROUP.move, token(1))
        newest = Version(incarnation=1, number=2)
        found = rig.one.write(2, 0, 7), rig.two.write(2, 0, 7, newest), heard[-1]
        rig.events = []
        return found, await rig.mover().run(GROUP.move, token(2))

    rig, (found, entry) = moved(play)
    assert (step != "switch", step == "switch", step) == found
    assert ("complete", 7) == (entry.record.state, rig.two.rows[2, 0])


def test_an_observer_that_ends_its_program_does_not_end_the_thread_of_the_mover():
    async def play(rig):
        rig.events = Fussy("fence", SystemExit(3))
        with pytest.raises(InvalidInput, match="observer"):
            await rig.mover().run(GROUP.move, token(1))
        return rig.one.write(2, 0, 7)

    assert moved(play)[1]


def test_an_observer_that_raises_during_a_wait_ends_the_wait():
    async def play(rig):
        rig.events = Fussy("waits", KeyError("waits"))
        rig.one.refusal = StoreUnavailable("shard one", "it is down")
        with pytest.raises(KeyError, match="waits"):
            async with asyncio.timeout(5):
                await rig.mover().run(GROUP.move, token(1))

    moved(play)


@pytest.mark.parametrize("word", ["go", "abort"])
@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("point", ["list.after", "capture.after", "intent.after", "announce.after"])
def test_a_record_that_went_back_opens_no_source_and_ends_no_move(point, is_complete, word):
    async def play(rig):
        book = MoveBook(rig.store, SET, rig.clock)
        if point != "list.after":
            rig.at = {point: kill}
            with pytest.raises(Killed):
                await rig.mover().run(GROUP.move, token(1))
        old = (await book.read()).kept[GROUP.move].entry
        rig.at = {} if is_complete else {"switch.after": kill}
        with suppress(Killed):
            await rig.mover().run(GROUP.move, token(2))
        assert rig.two.write(2, 0, 7, rig.two.slots[2].number)
        before = dict(rig.one.slots), dict(rig.two.slots)
        assert await book.write((await book.read()).kept[GROUP.move], old.wished(word))
        with pytest.raises(StoreWentBack, match="record of move m1"):
            async with asyncio.timeout(2):
                await rig.mover().run(GROUP.move, token(3))
        return before, (rig.one.slots, rig.two.slots)

    _, (before, after) = moved(play)
    assert before == after
