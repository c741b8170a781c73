"""Lives: a store that was killed is the same store; a store that was restored from a copy is another, and says so."""

import asyncio
from collections.abc import Awaitable, Callable

from apportion.errors import StoreUnavailable, StoreWentBack
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.steps import make
from apportion.stores import Absent, Committed, CoordinationStore, Put, Unchanged, Unknown, administration

_BUSY_KEYS = 25
_KEPT = 50  # with fewer keys, the copy could pass for the store itself
_PAUSE_SECONDS = 0.005  # a writer pauses, since a commit of an embedded store may let no other task run


async def _went_back(stage: Stage, ask: Callable[[], Awaitable[object]], what: str) -> None:
    """Fail unless a handle reports that the store went back. The handle may first have to connect again."""
    for _ in range(10):
        try:
            answer = await stage.available(ask)
        except StoreWentBack:
            return
        holds(isinstance(answer, Unknown), f"{what} after a later revision was seen raises StoreWentBack: {answer}")
    raise AssertionError(f"{what} after a later revision was seen never raised StoreWentBack")


async def _commit_went_back(stage: Stage) -> None:
    put = [Put(key="new", value=b"")]
    await _went_back(stage, lambda: stage.store.commit(when=[Absent(key="new")], puts=put), "a commit")


async def _back(stage: Stage, *handles: CoordinationStore) -> int:
    """Save a copy, write more, let the handles see it, and restore the copy. Return the revision of `kept`."""
    kept = await make(stage.store, "kept")
    await stage.rig.save()
    for number in range(5):
        await make(stage.store, f"lost/{number}")
    for store in handles:
        await store.scan("")
    await stage.rig.restore()
    return kept


@case()
async def a_handle_sees_that_an_old_copy_was_restored(stage: Stage) -> None:
    """A handle raises `StoreWentBack` and changes nothing, if it saw a later revision than the restored store has."""
    one, two, three = [await stage.connect() for _ in range(3)]
    lease = await one.grant(ttl_seconds=min(60.0, stage.able.max_ttl_seconds))
    kept = await _back(stage, one, two, three)
    write = [Put(key="kept", value=b"overwritten")]
    await _went_back(stage, lambda: one.commit(when=[Unchanged(key="kept", revision=kept)], puts=write), "a commit")
    await _went_back(stage, lambda: two.renew([lease.id]), "a renewal")
    await _went_back(stage, lambda: three.grant(ttl_seconds=stage.ttl_seconds), "a grant")
    same({"kept": b""}, await stage.keys(), "the items after the restore")


@case()
async def no_lease_is_given_again_after_a_restore(stage: Stage) -> None:
    """An id granted after the copy is not granted again after the restore. To revoke that id ends no other lease."""
    await make(stage.store, "kept")
    await stage.rig.save()
    ttl_seconds = min(60.0, stage.able.max_ttl_seconds)
    lost = [(await stage.store.grant(ttl_seconds=ttl_seconds)).id for _ in range(3)]
    for number in range(5):
        await make(stage.store, f"lost/{number}")
    await stage.rig.restore()
    await stage.available(lambda: stage.store.scan(""))  # the caller scans for another reason, unaware of the restore
    given = [(await stage.store.grant(ttl_seconds=ttl_seconds)).id for _ in range(3)]
    same(set(), {*lost} & {*given}, "the ids granted twice")
    for lease in lost:
        await stage.store.revoke(lease)
    same({*given}, await stage.store.renew(given), "the leases that are alive")


@case()
async def a_scan_accepts_a_store_that_was_restored(stage: Stage) -> None:
    """After `StoreWentBack` a scan shows the present state, and from then on the handle works again."""
    await _back(stage, stage.store)
    await _commit_went_back(stage)
    scan = await stage.available(lambda: stage.store.scan(""))
    same(["kept"], [item.key for item in scan.items], "the keys of the copy")
    tape = await stage.watch(after=scan.revision)
    await tape.shows(await make(stage.store, "new"))


@case()
async def a_watch_sees_that_an_old_copy_was_restored(stage: Stage) -> None:
    """A watch raises `StoreWentBack` if it has shown a later revision than the restored store has: it cannot go on."""
    tape = await stage.watch(after=(await stage.store.scan("")).revision)
    kept = await make(stage.store, "kept")
    await stage.rig.save()
    revisions = [kept, *[await make(stage.store, f"lost/{number}") for number in range(5)]]
    await tape.shows(revisions[-1])
    await stage.rig.restore()
    await raises(StoreWentBack, tape.ends(), "a watch of a store that was restored")
    same(revisions, [change.revision for change in tape.changes], "the revisions that were shown")


@case("durable")
async def a_restore_that_is_told_begins_a_new_incarnation(stage: Stage) -> None:
    """After an operator has reported the restore, the incarnation is greater, and old handles stop."""
    before = (await stage.store.scan("")).incarnation
    await _back(stage, stage.store)
    was, now = await administration(stage.rig.url(stage.namespace)).restored()
    holds(before <= was < now, f"incarnations grow: {before}, {was}, {now}")
    fresh = await stage.connect()
    same(now, (await fresh.scan("")).incarnation, "the incarnation that a new handle sees")
    await _commit_went_back(stage)
    same(now, (await stage.store.scan("")).incarnation, "the incarnation that the old handle sees at last")
    await make(fresh, "new")


async def _restored_in_place(stage: Stage) -> list[tuple[int, int]]:
    """Save a copy, give tokens, and restore the copy with the store's identity; return the tokens it lacks."""
    await make(stage.store, "kept")
    for number in range(_KEPT):
        await make(stage.store, f"kept/{number:02}")
    await stage.rig.save()
    given = await _tokens(stage.store)
    await stage.rig.restore_in_place()
    return given


async def _tokens(store: CoordinationStore) -> list[tuple[int, int]]:
    incarnation = (await store.scan("")).incarnation
    return [(incarnation, await make(store, f"token/{number}")) for number in range(5)]


async def _later_tokens(stage: Stage, given: list[tuple[int, int]]) -> None:
    fresh = await stage.connect()
    again = await stage.available(lambda: _tokens(fresh))
    holds(max(given) < min(again), f"tokens grow: {given}, {again}")
    await _commit_went_back(stage)


@case("durable", "fencing", "restore_seen")
async def a_copy_that_keeps_the_identity_of_its_store_is_seen_without_a_word(stage: Stage) -> None:
    """After the restore of a copy with the store's identity, a new process gets no token that was given before."""
    given = await _restored_in_place(stage)
    await _later_tokens(stage, given)


@case("durable", "fencing")
async def a_copy_that_keeps_the_identity_of_its_store_gives_no_token_twice_once_it_is_told(stage: Stage) -> None:
    """Tokens are later after `apportion store restored`; a handle that saw later revisions raises `StoreWentBack`."""
    given = await _restored_in_place(stage)
    await administration(stage.rig.url(stage.namespace)).restored()
    await _later_tokens(stage, given)


@case("durable")
async def a_crash_begins_no_new_incarnation(stage: Stage) -> None:
    """A store that was killed and started again is the same. Old handles go on; new ones see the same incarnation."""
    before = await stage.store.scan("")
    made = await make(stage.store, "a")
    await stage.crash()
    after = await stage.available(lambda: stage.store.scan(""))
    same(before.incarnation, after.incarnation, "the incarnation")
    holds(after.revision >= made, "the revision did not go back")
    fresh = await stage.connect()
    same(before.incarnation, (await fresh.scan("")).incarnation, "the incarnation that a new handle sees")
    await stage.available(lambda: make(stage.store, "b"))


@case("durable")
async def a_crash_loses_nothing_that_was_acknowledged(stage: Stage) -> None:
    """Acknowledged commits from before kill -9 are there after it, and commits reported as failed are not."""
    handles = [stage.store, *[await stage.connect() for _ in range(3)]]
    kept: set[str] = set()
    failed: set[str] = set()

    async def _write(number: int, store: CoordinationStore) -> None:
        for turn in range(1_000_000):
            key = f"{number}/{turn}"
            try:
                outcome = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"")])
            except StoreUnavailable:
                failed.add(key)
            else:
                kept.update([key] if isinstance(outcome, Committed) else [])
            await asyncio.sleep(_PAUSE_SECONDS)

    writers = [stage.beside(_write(number, store)) for number, store in enumerate(handles)]
    await stage.until(lambda: len(kept) >= _BUSY_KEYS, "commits are made before the crash")
    await stage.crash()
    wanted = len(kept) + _BUSY_KEYS
    await stage.until(lambda: len(kept) >= wanted, "commits are made after the crash", within=30.0)
    same([], [writer for writer in writers if writer.done()], "writers that gave up")
    for writer in writers:
        writer.cancel()
    await asyncio.wait(writers)
    found = set(await stage.keys())
    same(set(), kept - found, "keys that were acknowledged and are not there")
    same(set(), failed & found, "keys that were said to have failed and are there")


@case("durable", "fencing")
async def a_crash_lets_no_revision_be_given_twice(stage: Stage) -> None:
    """Every revision given after kill -9 is greater than all revisions given before it."""
    last = 0
    for crash in range(2):
        for number in range(5):
            revision = await stage.available(lambda: make(stage.store, f"{crash}/{number}"))  # noqa: B023
            holds(revision > last, f"revision {revision} is greater than {last}")
            last = revision
        await stage.crash()
    fresh = await stage.connect()
    holds(await make(fresh, "last") > last, "a new handle gives greater ones too")
