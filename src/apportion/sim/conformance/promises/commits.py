"""Commits: compare-and-set, all or nothing, one revision each."""

import asyncio

from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.expect import committed, holds, refused, same
from apportion.sim.conformance.steps import delete, increment, item, keys, make, rewrite
from apportion.stores import Absent, Committed, Compare, CoordinationStore, Put, Unchanged


@case()
async def of_many_who_make_a_key_one_wins(stage: Stage) -> None:
    """When many commits compare the same key as absent, one is committed and all others are refused."""
    handles = [await stage.connect() for _ in range(8)]

    async def _claim(number: int, store: CoordinationStore) -> object:
        return await store.commit(when=[Absent(key="seat")], puts=[Put(key="seat", value=b"%d" % number)])

    outcomes = await asyncio.gather(*(_claim(number, store) for number, store in enumerate(handles)))
    winners = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Committed)]
    same(1, len(winners), "winners")
    found = await item(stage.store, "seat")
    same(b"%d" % winners[0], found and found.value, "the value of the winner")


@case()
async def increments_through_many_handles_add_up(stage: Stage) -> None:
    """A commit that compares the value that it has read overwrites no other commit."""
    handles = [await stage.connect() for _ in range(4)]
    await asyncio.gather(*(increment(store, "counter", 10) for store in handles))
    found = await item(stage.store, "counter")
    same(b"40", found and found.value, "the sum of 40 increments")


@case()
async def a_commit_of_many_keys_happens_at_one_revision(stage: Stage) -> None:
    """All puts and deletes of a commit happen, at the revision that it returned."""
    first = await make(stage.store, "old", "kept")
    compares: list[Compare] = [Unchanged(key="old", revision=first), Absent(key="b"), Absent(key="a")]
    puts = [Put(key="b", value=b"2"), Put(key="a", value=b"1")]
    revision = committed(await stage.store.commit(when=compares, puts=puts, deletes=["old"]))
    scan = await stage.store.scan("")
    found = [(each.key, each.value, each.revision) for each in scan.items]
    same([("a", b"1", revision), ("b", b"2", revision), ("kept", b"", first)], found, "the items")


@case("one_revision")
async def keys_of_all_names_have_one_order_of_revisions(stage: Stage) -> None:
    """A commit may hold any keys, and every later commit has a greater revision, whatever the names in its keys."""
    names = ["group/a", "live/b/target", "table/c/head", "jobs/1"]
    last = await make(stage.store, *names)
    for name in (*names, *reversed(names)):
        found = await item(stage.store, name)
        revision = await rewrite(stage.store, name, found.revision if found else 0, b"next")
        holds(revision > last, f"revision {revision} of {name} is greater than {last}")
        last = revision
    same(last, (await stage.store.scan("")).revision, "the revision of all keys")


@case()
async def one_compare_that_fails_stops_a_whole_commit(stage: Stage) -> None:
    """When one of many compares does not hold, the commit is refused: no put and no delete has happened."""
    first = await make(stage.store, "there", "other")
    before = await stage.store.scan("")
    for wrong in (Absent(key="other"), Unchanged(key="other", revision=first + 1), Unchanged(key="no", revision=first)):
        compares: list[Compare] = [Unchanged(key="there", revision=first), Absent(key="new"), wrong]
        refused(await stage.store.commit(when=compares, puts=[Put(key="new", value=b"1")], deletes=["there"]))
    same(before, await stage.store.scan(""), "the scan after refused commits")


@case()
async def a_key_that_is_only_compared_is_left_as_it_is(stage: Stage) -> None:
    """A compare without a write guards a commit and changes nothing, neither value nor revision."""
    guard = await make(stage.store, "guard", value=b"mine")
    compares: list[Compare] = [Unchanged(key="guard", revision=guard), Absent(key="work")]
    committed(await stage.store.commit(when=compares, puts=[Put(key="work", value=b"1")]))
    found = await item(stage.store, "guard")
    same((b"mine", guard), found and (found.value, found.revision), "the guard")


@case()
async def a_key_that_was_rewritten_is_not_unchanged(stage: Stage) -> None:
    """After a = 1 and a = 2, a compare with the first revision fails. A compare with the second revision holds."""
    first = await make(stage.store, "a", value=b"1")
    second = await rewrite(stage.store, "a", first, b"2")
    put = [Put(key="a", value=b"3")]
    refused(await stage.store.commit(when=[Unchanged(key="a", revision=first)], puts=put))
    committed(await stage.store.commit(when=[Unchanged(key="a", revision=second)], puts=put))


@case()
async def the_same_value_written_again_is_a_change(stage: Stage) -> None:
    """After a = 1, a = 2, a = 1, a compare with the first revision fails: revisions are compared, not values."""
    first = await make(stage.store, "a", value=b"1")
    second = await rewrite(stage.store, "a", first, b"2")
    third = await rewrite(stage.store, "a", second, b"1")
    refused(await stage.store.commit(when=[Unchanged(key="a", revision=first)], deletes=["a"]))
    fourth = await rewrite(stage.store, "a", third, b"1")
    holds(fourth > third, "a put of an equal value is a commit of its own")


@case()
async def a_deleted_key_is_absent(stage: Stage) -> None:
    """After a delete, `Absent` holds, and `Unchanged` with the last revision does not."""
    first = await make(stage.store, "a", value=b"1")
    await delete(stage.store, "a", first)
    same([], await keys(stage.store), "the keys after the delete")
    refused(await stage.store.commit(when=[Unchanged(key="a", revision=first)], puts=[Put(key="a", value=b"2")]))
    await make(stage.store, "a", value=b"3")


@case()
async def a_key_made_anew_is_not_the_one_that_was_deleted(stage: Stage) -> None:
    """A key that was deleted and made again with the same value does not match its first revision."""
    first = await make(stage.store, "a", value=b"1")
    await delete(stage.store, "a", first)
    again = await make(stage.store, "a", value=b"1")
    holds(again > first, "revisions grow over a delete")
    refused(await stage.store.commit(when=[Unchanged(key="a", revision=first)], deletes=["a"]))
    await delete(stage.store, "a", again)


@case()
async def revisions_grow_with_every_commit(stage: Stage) -> None:
    """Each commit of any handle has a greater revision than all before. A scan shows at least the last of them."""
    other = await stage.connect()
    revisions = [await make(store, f"{turn}") for turn, store in enumerate([stage.store, other] * 10)]
    same(sorted(set(revisions)), revisions, "the revisions in the order of their commits")
    scan = await stage.store.scan("")
    holds(scan.revision >= revisions[-1], "a scan's revision is at least that of the last commit")
    same(sorted(revisions), sorted(each.revision for each in scan.items), "the revisions of the items")


@case()
async def commits_that_write_the_same_keys_in_any_order_all_end(stage: Stage) -> None:
    """Commits of the same keys, named in opposite orders, never block each other for ever."""
    left, right = stage.store, await stage.connect()
    await make(left, "x", "y")

    async def _swap(store: CoordinationStore, names: list[str], times: int) -> None:
        while times:
            found = {each.key: each.revision for each in (await store.scan("")).items}
            when = [Unchanged(key=name, revision=found[name]) for name in names]
            outcome = await store.commit(when=when, puts=[Put(key=name, value=b"%d" % times) for name in names])
            times -= isinstance(outcome, Committed)

    await asyncio.gather(_swap(left, ["x", "y"], 10), _swap(right, ["y", "x"], 10))
    found = await stage.store.scan("")
    same(1, len({each.revision for each in found.items}), "revisions of the two keys")


@case()
async def a_refused_commit_tells_a_revision_at_which_it_was_wrong(stage: Stage) -> None:
    """The revision of `Refused` is not older than the change that made the compare fail."""
    other = await stage.connect()
    revision = await make(other, "a")
    outcome = await stage.store.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"1")])
    refused(outcome)
    told = getattr(outcome, "revision", 0)
    holds(revision <= told, f"the refusal at {told} is not older than the change at {revision}")
    holds(told <= (await stage.store.scan("")).revision, "the refusal is not newer than the store")
