"""Watches: every change, in order, whole, once; through sleep, crashes and forgotten history."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from apportion.errors import Compacted, InvalidInput, StoreUnavailable, StoreWentBack
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import LATENESS_SECONDS, Stage
from apportion.sim.conformance.expect import committed, holds, raises, same
from apportion.sim.conformance.steps import delete, increment, make, rewrite
from apportion.stores import Absent, Committed, Compare, CoordinationStore, Event, Put, StoreChange, Unchanged, Unknown

_SOON_SECONDS = 30.0  # a killed server has a log to read


def _values(changes: Sequence[StoreChange], key: str) -> list[bytes | None]:
    return [event.value for change in changes for event in change.events if event.key == key]


async def _now(store: CoordinationStore) -> int:
    return (await store.scan("")).revision


@case()
async def a_watch_shows_every_commit_of_all_handles_in_order(stage: Stage) -> None:
    """A watch shows exactly the revisions of the commits, each once and in growing order."""
    handles = [stage.store, *[await stage.connect() for _ in range(3)]]
    tape = await stage.watch(after=await _now(stage.store))
    revisions: list[int] = []

    async def _write(number: int, store: CoordinationStore) -> None:
        for turn in range(15):
            revisions.append(await make(store, f"{number}/{turn}"))  # noqa: PERF401 - in the order of the replies

    await asyncio.gather(*(_write(number, store) for number, store in enumerate(handles)))
    changes = await tape.shows(max(revisions))
    same(sorted(revisions), [change.revision for change in changes], "the revisions that were shown")


@case()
async def several_writes_of_one_key_are_all_seen(stage: Stage) -> None:
    """Writes of one key in quick succession are not merged: a watch shows each value."""
    revision = await make(stage.store, "a", value=b"0")
    tape = await stage.watch(after=revision)
    for number in range(1, 21):
        revision = await rewrite(stage.store, "a", revision, b"%d" % number)
    changes = await tape.shows(revision)
    same([b"%d" % number for number in range(1, 21)], _values(changes, "a"), "the values that were shown")


@case()
async def a_key_that_came_and_went_between_two_looks_is_seen(stage: Stage) -> None:
    """A key that was made and deleted before the watch looked again is shown as made and as deleted."""
    tape = await stage.watch(after=await _now(stage.store))
    for _ in range(3):
        revision = await delete(stage.store, "brief", await make(stage.store, "brief", value=b"1"))
    same([b"1", None] * 3, _values(await tape.shows(revision), "brief"), "the values that were shown")


@case()
async def a_commit_is_seen_whole(stage: Stage) -> None:
    """A commit is one change with all its puts and deletes, sorted by key, with values and leases."""
    first = await make(stage.store, "b", "d")
    lease = await stage.store.grant(ttl_seconds=min(60.0, stage.able.max_ttl_seconds))
    tape = await stage.watch(after=first)
    when: list[Compare] = [
        Unchanged(key="d", revision=first),
        Unchanged(key="b", revision=first),
        Absent(key="c"),
        Absent(key="a"),
    ]
    puts = [Put(key="d", value=b"4"), Put(key="c", value=b"3", lease=lease.id), Put(key="a", value=b"")]
    revision = committed(await stage.store.commit(when=when, puts=puts, deletes=["b"]))
    events = (
        Event(key="a", value=b""),
        Event(key="b", value=None),
        Event(key="c", value=b"3", lease=lease.id),
        Event(key="d", value=b"4"),
    )
    same([StoreChange(revision=revision, events=events)], await tape.shows(revision), "the changes")
    await stage.store.revoke(lease.id)


@case()
async def a_refused_commit_is_not_seen(stage: Stage) -> None:
    """A refused commit is in no watch."""
    after = await make(stage.store, "a", value=b"1")
    tape = await stage.watch(after=after)
    await stage.store.commit(when=[Absent(key="a"), Absent(key="b")], puts=[Put(key="b", value=b"2")])
    revision = await make(stage.store, "c")
    same([revision], [change.revision for change in await tape.shows(revision)], "the revisions that were shown")


@case()
async def a_watch_shows_its_prefix_alone(stage: Stage) -> None:
    """A watch shows the part of a commit under its prefix, and nothing if there is no such part."""
    tape = await stage.watch("job/", after=await _now(stage.store))
    await make(stage.store, "job", "job0", "jo", "Job/1")
    half = await make(stage.store, "job/1", "job0/1", "a")
    await make(stage.store, "other")
    last = await make(stage.store, "job/")
    events = [(change.revision, *(event.key for event in change.events)) for change in await tape.shows(last)]
    same([(half, "job/1"), (last, "job/")], events, "the changes")


@case()
async def a_watch_from_the_past_goes_on_into_the_present(stage: Stage) -> None:
    """A watch begins right after its given revision: first with past changes, then with new ones."""
    first = await make(stage.store, "a", value=b"1")
    second = await rewrite(stage.store, "a", first, b"2")
    third = await delete(stage.store, "a", second)
    tape = await stage.watch(after=first)
    await tape.shows(third)
    fourth = await make(stage.store, "a", value=b"4")
    await tape.shows(fourth)
    same([b"2", None, b"4"], _values(tape.changes, "a"), "the values after the first revision")
    same([second, third, fourth], [change.revision for change in tape.changes], "the revisions")


@case()
async def a_scan_and_a_watch_after_it_leave_no_gap(stage: Stage) -> None:
    """Under writes, the result of a scan and the changes after its revision add up to the result of a later scan."""
    writer = await stage.connect()
    writing = stage.beside(increment(writer, "counter", 40))
    scan = await stage.store.scan("counter")
    while not scan.items:
        await asyncio.sleep(0)
        scan = await stage.store.scan("counter")
    tape = await stage.watch("counter", after=scan.revision)
    await writing
    last = (await stage.unchanged("counter")).revision
    changes = await tape.shows(await rewrite(stage.store, "counter", last, b"41"))
    numbers = [int(value or b"0") for value in _values(changes, "counter")]
    same(list(range(int(scan.items[0].value) + 1, 42)), numbers, "the counter after the scan")


@case()
async def a_slow_consumer_misses_nothing(stage: Stage) -> None:
    """A consumer that is slower than the changes gets all of them, in order."""
    async with aclosing(stage.store.watch("", after=await _now(stage.store))) as changes:
        revisions = [await make(stage.store, "first")]
        seen = [(await anext(changes)).revision]
        revisions += [await make(stage.store, f"{number}", value=bytes(1_000)) for number in range(150)]
        async with asyncio.timeout(stage.patience_seconds):
            while seen[-1] < revisions[-1]:
                seen.append((await anext(changes)).revision)
    same(revisions, seen, "the revisions that were shown")


@case()
async def many_watchers_see_the_same(stage: Stage) -> None:
    """Watches of many handles, and many of one handle, show the same changes."""
    after = await _now(stage.store)
    handles = [stage.store] * 6 + [await stage.connect() for _ in range(6)]
    tapes = [await stage.watch(after=after, store=store) for store in handles]
    revisions = [await make(stage.store, f"{number}") for number in range(20)]
    for tape in tapes:
        changes = await tape.shows(revisions[-1])
        same(revisions, [change.revision for change in changes], "the revisions that one watch showed")


@case()
async def a_change_is_seen_in_time(stage: Stage) -> None:
    """A quiet watch shows a change within `watch_delay_seconds`, apart from the delays of a busy machine."""
    other = await stage.connect()
    tape = await stage.watch(after=await _now(other), store=other)
    await tape.shows(await make(stage.store, "warm"))
    for number in range(3):
        revision = await make(stage.store, f"{number}")
        await tape.shows(
            revision, within=min(stage.patience_seconds, stage.able.watch_delay_seconds + LATENESS_SECONDS)
        )


@case()
async def a_watch_from_the_future_is_refused(stage: Stage) -> None:
    """A watch after a revision that the store has not reached would hide changes, so it raises `StoreWentBack`."""
    tape = await stage.watch(after=await _now(stage.store) + 1_000_000)
    await raises(StoreWentBack, tape.ends(), "a watch after a revision that the store never had")


@case()
async def a_watch_after_no_revision_is_refused(stage: Stage) -> None:
    """A watch starts after a revision in 0 .. 2**63 - 1; anything else is invalid."""
    for after in (-1, 2**63, 1.5, None, "1"):
        tape = await stage.watch(after=after)  # type: ignore[arg-type]
        await raises(InvalidInput, tape.ends(), f"a watch after {after!r}")


@case("gapless_watch")
async def a_watch_whose_history_is_gone_says_so(stage: Stage) -> None:
    """After the history was forgotten, a watch of it raises `Compacted`. A watch after a new scan goes on."""
    first = await make(stage.store, "a", value=b"1")
    await rewrite(stage.store, "a", first, b"2")
    await stage.rig.compact()
    await make(stage.store, "b")  # some engines forget only history before the last change
    old = await stage.watch(after=first)
    error = await raises(Compacted, old.ends(), "a watch from before the compaction")
    same(first, error.after, "the revision that the watch was to go on from")
    tape = await stage.watch(after=await _now(stage.store))
    await tape.shows(await make(stage.store, "c"))


@case("gapless_watch")
async def a_watch_that_slept_through_a_compaction_shows_no_gap(stage: Stage) -> None:
    """A consumer that was busy while history was forgotten gets all changes, or the first ones and then `Compacted`."""
    async with aclosing(stage.store.watch("", after=await _now(stage.store))) as changes:
        revisions = [await make(stage.store, "first")]
        seen = [(await anext(changes)).revision]
        revisions += [await make(stage.store, f"{number}") for number in range(30)]
        await stage.rig.compact()
        revisions.append(await make(stage.store, "last"))
        try:
            async with asyncio.timeout(stage.patience_seconds):
                while seen[-1] < revisions[-1]:
                    seen.append((await anext(changes)).revision)
        except Compacted as error:
            holds(error.after >= seen[-1], f"the watch stopped at {error.after}, after it had shown {seen[-1]}")
    same(revisions[: len(seen)], seen, "the revisions that were shown")


@case("gapless_watch")
async def a_watch_goes_on_after_a_crash_without_gap(stage: Stage) -> None:
    """A watch survives kill -9 of the server: every commit before, around and after it is shown once, in order."""
    tape = await stage.watch("a", after=await _now(stage.store))
    revision = await make(stage.store, "a", value=b"0")
    wanted, unsure = [revision], set()
    for crash in range(2):
        for number in range(5):
            outcome = await stage.available(lambda: _rewrite_now(stage, b"%d" % (10 * crash + number)))  # noqa: B023
            wanted += [outcome.revision] if isinstance(outcome, Committed) else []
            unsure |= {b"%d" % (10 * crash + number)} if isinstance(outcome, Unknown) else set()
        await stage.crash()
    last = await stage.available(lambda: _rewrite_now(stage, b"last"))
    changes = await tape.shows(committed(last), within=_SOON_SECONDS)
    shown = [change.revision for change in changes]
    same(sorted(set(shown)), shown, "the revisions that were shown, in order and each once")
    same(set(), set(wanted) - set(shown), "revisions that were acknowledged and not shown")
    others = {value for value in _values(changes, "a") if value in unsure}
    same(len(wanted) + 1 + len(others), len(shown), "the changes, with those of unknown outcome")


async def _rewrite_now(stage: Stage, value: bytes) -> Committed | Unknown:
    """Rewrite the key `a` in its present state; `StoreUnavailable` when that did not happen."""
    outcome = await stage.store.commit(when=[await stage.unchanged("a")], puts=[Put(key="a", value=value)])
    if isinstance(outcome, Committed | Unknown):
        return outcome
    raise StoreUnavailable("the store", "an earlier commit came late")
