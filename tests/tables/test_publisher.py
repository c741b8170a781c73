"""Publishing: a crash, a lost reply or another publisher at any of its commits leaves a whole version to be read."""

import asyncio
from dataclasses import replace

import pytest

from apportion import Assignment, Topology, tables
from apportion.errors import BadSnapshot, Conflict, InvalidInput, StaleEpoch, StoreUnavailable, StoreWentBack
from apportion.stores import Absent, Put, Unchanged
from apportion.stores.requests import Space
from apportion.tables import layout
from apportion.tables.layout import decode_head, encode_head
from apportion.tables.publisher import Publisher, publish
from tests.tables.sample import (
    HOWS,
    KEYS,
    NAME,
    SMALL,
    Died,
    Failing,
    handle,
    many,
    memory,
    read,
    ring,
    same,
    unneeded,
)

OLD, NEW, NEXT = many(1), many(2), many(3)
NEARLY_OLD = replace(OLD, rows=(*OLD.rows[:-1], OLD.rows[0]))
COMMITS = 3  # of each of these values within SMALL


def test_a_program_with_an_open_store_publishes_and_follows_with_names_of_the_room():
    async def main():
        store = handle(memory())
        done = await tables.Publisher(store, NAME).publish(ring("a"))
        async with tables.following(store, NAME) as follower:
            assert done.version == follower.routes.version

    asyncio.run(main())


def test_a_value_of_many_chunks_is_published_within_the_limits_of_the_store():
    async def main():
        shared = memory()
        store = Failing(handle(shared), limits=SMALL)  # holds each commit against the limits
        publisher = Publisher(store, NAME)
        for number, value in enumerate((OLD, NEW, NEXT, ring("a", "b")), start=1):
            if number == 4:
                store = Failing(handle(shared), limits=SMALL)
                with pytest.raises(InvalidInput, match="kind of orders is 'table', expected assignment"):
                    await Publisher(store, NAME).publish(value)
                continue
            published = await publisher.publish(value)
            assert (number, value.epoch) == (published.version.number, published.epoch)
            shown = await read(store)
            assert number == shown[0]
            assert same(value, shown[1])
        assert store.commits == 0
        return shared

    shared = asyncio.run(main())
    assert max(len(entry.records) for entry in shared.ledger.history) <= SMALL["max_operations"]
    assert len(shared.ledger.history) >= 3 * COMMITS


def test_chunks_are_small_enough_for_a_commit_where_one_value_may_be_as_long_as_a_commit():
    async def main():
        store = Failing(handle(memory()), limits=SMALL | {"max_value_bytes": 2_000})
        await Publisher(store, NAME).publish(OLD)
        return (await read(store))[1]

    assert same(OLD, asyncio.run(main()))


class Exact(Failing):
    """A store whose limits are those of the longest namespace."""

    async def commit(self, *, when, puts=(), deletes=()):
        Space("n" * 64).request(when, puts, deletes, self.capabilities())
        return await self._inner.commit(when=when, puts=puts, deletes=deletes)


@pytest.mark.parametrize("most", [{"max_commit_bytes": 3_000}, {"max_commit_bytes": 5_000}, {"max_operations": 9}])
def test_a_publish_clears_as_much_away_as_the_store_takes_in_one_commit_and_no_more(most):
    async def main():
        shared, counts = memory(), []
        store = Exact(handle(shared), limits={"max_value_bytes": 300} | most)
        for number in range(90):
            key = f"{KEYS.prefix}0.{number}/0"
            await handle(shared).commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"")])
        for number in range(1, 5):
            rows = ((number % 5,), *OLD.rows, *NEW.rows, *NEXT.rows)
            value = Assignment(topology=Topology(OLD.topology.nodes, number=number), rows=rows)
            published = await Publisher(store, NAME).publish(value)
            assert (number, number == 1) == (published.version.number, published.is_snapshot)
            counts.append(len(await unneeded(handle(shared))))
        return counts

    counts = asyncio.run(main())
    assert 90 >= counts[0] > counts[1] > counts[2] > counts[3] > 0


class Strict(Failing):
    """A store that refuses a commit beyond its limit."""

    async def commit(self, *, when, puts=(), deletes=()):
        assert puts
        raise InvalidInput("commit", "too large", "at most 100 bytes", "Take fewer.")


def test_a_chunk_that_fits_into_no_commit_is_left_for_the_store_to_refuse():
    async def main():
        store = Strict(handle(memory()), limits=SMALL | {"max_commit_bytes": 100})
        with pytest.raises(InvalidInput, match="commit is 'too large'"):
            await Publisher(store, NAME).publish(OLD)

    asyncio.run(asyncio.wait_for(main(), 10))


def test_what_is_there_already_is_not_published_again():
    async def main():
        shared = memory()
        first = await publish(handle(shared), NAME, OLD)
        revision = shared.ledger.revision
        assert first == await publish(handle(shared), NAME, OLD)
        publisher = Publisher(handle(shared), NAME)
        assert first == await publisher.publish(OLD) == await publisher.publish(OLD)
        assert revision == shared.ledger.revision

    asyncio.run(main())


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("at", range(1, COMMITS + 1))
@pytest.mark.parametrize("is_first", [True, False])
def test_whatever_becomes_of_a_commit_one_whole_version_is_there_and_the_next_publish_works(how, at, is_first):
    async def main():
        shared = memory()
        if not is_first:
            await publish(Failing(handle(shared), limits=SMALL), NAME, OLD)
        before = await read(handle(shared))
        failing = Failing(handle(shared), at=at, how=how, limits=SMALL)
        publisher, done = Publisher(failing, NAME), None
        try:
            done = await publisher.publish(NEW)
        except (StoreUnavailable, Conflict, Died) as error:
            said = error
        assert failing.commits >= at
        after = await read(handle(shared))
        is_new = after is not None and same(NEW, after[1])
        if done is not None:
            assert is_new
            assert after[0] == done.version.number
        elif how != "dies after" or at < COMMITS:
            assert before == after, said
        if how in ("request lost", "reply lost", "late"):
            assert done is not None, said
        left = max((KEYS.version_of(key) for key in await unneeded(handle(shared))), default=0)
        number = 1 + (left if after is None else after[0])
        for again in (publisher, Publisher(Failing(handle(shared), limits=SMALL), NAME)):
            published = await again.publish(NEXT)
            shown = await read(handle(shared))
            assert number == shown[0] == published.version.number
            assert same(NEXT, shown[1])
        for value in (OLD, NEW, OLD, NEW):
            await publish(handle(shared), NAME, value)
        assert set() == await unneeded(handle(shared))

    asyncio.run(main())


@pytest.mark.parametrize("at", range(1, COMMITS + 1))
@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_publishers_one_wins_and_the_other_is_told(at, is_first):
    async def main():
        shared = memory()
        if not is_first:
            await publish(Failing(handle(shared), limits=SMALL), NAME, OLD)

        async def other():
            await publish(Failing(handle(shared), limits=SMALL), NAME, NEXT)

        failing = Failing(handle(shared), at=at, before=other, limits=SMALL)
        with pytest.raises(StaleEpoch) as told:
            await publish(failing, NAME, NEW)
        number, value = await read(handle(shared))
        assert 2 - (is_first and at == 1) == number  # what a publisher left behind has a number too
        assert same(NEXT, value)
        assert f"{NEXT.epoch}, version {number}" == told.value.current
        await publish(handle(shared), NAME, NEW)
        assert set() == await unneeded(handle(shared))

    asyncio.run(main())


def test_the_loser_publishes_after_the_winner_when_it_asks_again():
    async def main():
        shared = memory()
        one, other = Publisher(handle(shared), NAME), Publisher(handle(shared), NAME)
        await one.publish(OLD)
        await other.publish(NEW)
        with pytest.raises(StaleEpoch):
            await one.publish(NEXT)
        assert 3 == (await one.publish(NEXT)).version.number

    asyncio.run(main())


def test_what_was_the_newest_is_published_again_after_another():
    async def main():
        shared = memory()
        one = Publisher(handle(shared), NAME)
        await one.publish(OLD)
        await publish(handle(shared), NAME, NEW)
        assert 3 == (await one.publish(OLD)).version.number
        assert same(OLD, (await read(handle(shared)))[1])

    asyncio.run(main())


def test_a_publish_whose_reply_was_lost_is_known_again_under_the_version_after_it():
    rows = list(NEW.rows)
    rows[0] = ((rows[0][0] + 1) % 5,)
    after = Assignment(topology=NEW.topology, rows=tuple(rows))

    class Overtaken(Failing):
        async def _fail(self, request):
            outcome = await super()._fail(request)
            assert not (await publish(handle(shared), NAME, after)).is_snapshot
            return outcome

    async def main():
        published = await publish(Overtaken(handle(shared), at=COMMITS, how="reply lost", limits=SMALL), NAME, NEW)
        assert (1, NEW.epoch, True) == (published.version.number, published.epoch, published.is_snapshot)
        assert 2 == (await read(handle(shared)))[0]

    shared = memory()
    asyncio.run(main())


@pytest.mark.parametrize("is_first", [True, False])
def test_a_publish_whose_request_was_lost_undoes_no_version_of_another_publisher(is_first):
    class Overtaken(Failing):
        async def _fail(self, request):
            outcome = await super()._fail(request)
            await publish(handle(shared), NAME, NEXT)
            return outcome

    async def main():
        if not is_first:
            await publish(handle(shared), NAME, OLD)
        publisher = Publisher(Overtaken(handle(shared), at=COMMITS, how="request lost", limits=SMALL), NAME)
        with pytest.raises(StoreUnavailable, match="another publisher was first"):
            await publisher.publish(NEW)
        assert same(NEXT, (await read(handle(shared)))[1])

    shared = memory()
    asyncio.run(main())


def test_the_value_that_newest_read_is_not_published_over_a_later_version():
    async def main():
        shared = memory()
        await publish(handle(shared), NAME, OLD)
        publisher = Publisher(handle(shared), NAME)
        read_first = await publisher.newest()
        await publish(handle(shared), NAME, NEW)
        with pytest.raises(StaleEpoch):
            await publisher.publish(read_first)
        assert same(NEW, (await read(handle(shared)))[1])
        assert 3 == (await publisher.publish(OLD)).version.number

    asyncio.run(main())


def test_newest_decodes_no_chunk_again_that_nobody_wrote_since(monkeypatch):
    async def main():
        shared = memory()
        publisher = Publisher(handle(shared), NAME)
        await publisher.publish(OLD)
        monkeypatch.setattr(layout, "payload_of", lambda link, *_: pytest.fail(f"{link} was decoded"))
        assert same(OLD, await publisher.newest())
        await publisher.publish(NEW)
        assert same(NEW, await publisher.newest())

    asyncio.run(main())


def test_newest_reads_the_deltas_of_another_publisher_on_top_of_the_version_in_memory(monkeypatch):
    async def main():
        shared, decoded, read_payload = memory(), [], layout.payload_of
        publisher = Publisher(handle(shared), NAME)
        await publisher.publish(OLD)
        await publish(handle(shared), NAME, NEARLY_OLD)
        monkeypatch.setattr(layout, "payload_of", lambda *of: decoded.append(of[0].version) or read_payload(*of))
        assert same(NEARLY_OLD, await publisher.newest())
        assert [2] == decoded

    asyncio.run(main())


@pytest.mark.parametrize("damage", ["chunk", "gone", "kind"])
def test_newest_sees_damage_though_it_has_the_version_in_memory(damage):
    async def main():
        shared = memory()
        store = handle(shared)
        publisher = Publisher(store, NAME)
        await publisher.publish(OLD)
        items = {item.key: item for item in (await store.scan(KEYS.prefix)).items}
        key = KEYS.head if damage == "kind" else next(key for key in items if key != KEYS.head)
        value = items[key].value.replace(b'"assignment"', b'"table"') if damage == "kind" else b"junk"
        puts, deletes = ([], [key]) if damage == "gone" else ([Put(key=key, value=value)], [])
        await store.commit(when=[Unchanged(key=key, revision=items[key].revision)], puts=puts, deletes=deletes)
        with pytest.raises(BadSnapshot, match="damaged"):
            await publisher.newest()

    asyncio.run(main())


def test_newest_sees_a_head_that_counts_other_chunks_of_an_earlier_version():
    async def main():
        shared = memory()
        store = handle(shared)
        publisher = Publisher(store, NAME)
        await publisher.publish(OLD)
        await publisher.publish(NEARLY_OLD)
        [item] = [item for item in (await store.scan(KEYS.head)).items if item.key == KEYS.head]
        head = decode_head(item.value)
        links = (replace(head.links[0], parts=head.links[0].parts + 1), *head.links[1:])
        puts = [Put(key=KEYS.head, value=encode_head(replace(head, links=links)))]
        await store.commit(when=[Unchanged(key=KEYS.head, revision=item.revision)], puts=puts)
        with pytest.raises(BadSnapshot, match="damaged"):
            await publisher.newest()

    asyncio.run(main())


def test_a_leader_that_lost_its_term_publishes_nothing():
    async def main():
        shared = memory()
        store = handle(shared)
        term = await store.commit(when=[Absent(key="leader")], puts=[Put(key="leader", value=b"ann")])
        held = Unchanged(key="leader", revision=term.revision)
        publisher = Publisher(Failing(store, limits=SMALL), NAME)
        await publisher.publish(OLD, when=[held])
        await store.commit(when=[held], puts=[Put(key="leader", value=b"bob")])
        revision = store._memory.ledger.revision
        with pytest.raises(Conflict, match="lost its term"):
            await publisher.publish(NEW, when=[held])
        assert revision == shared.ledger.revision
        assert same(OLD, (await read(store))[1])

    asyncio.run(main())


def test_a_store_that_never_replies_is_not_said_to_have_done_nothing():
    class Mute(Failing):
        async def commit(self, *, when, puts=(), deletes=()):
            self.commits += 1
            return await self._fail({"when": when, "puts": puts, "deletes": deletes})

    async def main():
        store = Mute(handle(memory()), how="request lost")
        with pytest.raises(StoreUnavailable, match="may be published already"):
            await publish(store, NAME, OLD)
        assert 3 == store.commits

    asyncio.run(main())


def test_a_store_that_goes_away_after_a_lost_reply_is_not_said_to_have_done_nothing():
    class Away(Failing):
        async def scan(self, prefix):
            if self.commits:
                raise StoreUnavailable("the store", "no connection")
            return await self._inner.scan(prefix)

    async def main():
        shared = memory()
        with pytest.raises(StoreUnavailable, match="may be published already"):
            await publish(Away(handle(shared), at=1, how="reply lost"), NAME, OLD)
        assert same(OLD, (await read(handle(shared)))[1])

    asyncio.run(main())


def test_damaged_chunks_are_mended_by_the_next_publish():
    async def main():
        shared = memory()
        store = handle(shared)
        await publish(store, NAME, OLD)
        [item] = [item for item in (await store.scan(KEYS.prefix)).items if item.key != KEYS.head]
        await store.commit(
            when=[Unchanged(key=item.key, revision=item.revision)], puts=[Put(key=item.key, value=b"junk")]
        )
        published = await publish(store, NAME, NEW)
        assert published.is_snapshot
        assert same(NEW, (await read(store))[1])

    asyncio.run(main())


def test_a_publisher_goes_on_from_what_a_restored_store_holds():
    async def main():
        shared = memory()
        publisher = Publisher(handle(shared), NAME)
        await publisher.publish(OLD)
        copy = memory()
        copy.ledger.records = dict(shared.ledger.records)
        copy.ledger.revision, copy.ledger.incarnation = shared.ledger.revision, 2
        await publisher.publish(NEW)
        shared.ledger = copy.ledger
        with pytest.raises(StoreWentBack):
            await publisher.publish(NEXT)
        published = await publisher.publish(NEXT)
        assert "2:2" == str(published.version)
        assert same(NEXT, (await read(handle(shared)))[1])

    asyncio.run(main())


def test_a_publisher_of_one_life_publishes_in_no_other():
    async def main():
        shared = memory()
        publisher = Publisher(handle(shared), NAME, incarnation=1)
        await publisher.publish(OLD)
        shared.ledger = memory(incarnation=2).ledger
        for _ in range(2):
            with pytest.raises(StoreWentBack):
                await publisher.publish(NEW)
        assert await read(handle(shared)) is None

    asyncio.run(main())


def test_an_assignment_of_which_nobody_owns_anything_is_published_and_one_of_nothing_cannot_be_made():
    async def main():
        store = handle(memory())
        await publish(store, NAME, Assignment(topology=Topology(["a"]), rows=((), ())))
        assert ((), ()) == tuple((await read(store))[1].rows)

    asyncio.run(main())
    with pytest.raises(InvalidInput):
        Assignment(topology=Topology(["a"]), rows=())


def test_a_table_above_the_cap_is_refused_before_anything_is_written():
    async def main():
        shared = memory()
        names = tuple(f"{place:0255d}" for place in range(40_000))
        large = Assignment(topology=Topology(["a"]), rows=((0,),) * len(names), names=names)
        with pytest.raises(InvalidInput, match="16777216"):
            await publish(handle(shared), NAME, large)
        assert 0 == shared.ledger.revision

    asyncio.run(main())
