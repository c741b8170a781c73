"""Acts: an operator drains, undrains, forgets, releases and resizes from outside the group, and reads its changes.

Promises: each act is one commit that compares the records it relies on; only a resize may take more commits. A saved
plan is also one commit, even if it drains some members and forgets others. If a record changed in between, the group is
read again. No epoch ever goes back: an ownership record is written anew with a higher epoch or with fewer deaths, and
never deleted.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from apportion.errors import Compacted, InvalidInput, UnknownOption, Unsafe
from apportion.errors.brief import brief
from apportion.groups.admin.found import Found, happened, read
from apportion.groups.admin.history import HistoryLine, Story
from apportion.groups.admin.standing import Standing, standing
from apportion.groups.crash_loops import ended
from apportion.groups.membership import ask_to_leave, request_to_leave
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import DRAINED, OwnershipRecord, Target, checked_partitions, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.stores.api import Committed, Compare, CoordinationStore, Put, Unchanged

_HISTORY_SECONDS = 5.0


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A group as it was read, the standing of one partition, and the stored changes of that partition, oldest first."""

    found: Found
    standing: Standing
    history: tuple[HistoryLine, ...]


async def drain(store: CoordinationStore, name: str, member_id: str, shown: str) -> Found:
    """Ask a member to give up all its partitions. A second request to the same member changes nothing."""
    while True:
        found = await read(store, name)
        found.checked_member(member_id)
        outcome = await ask_to_leave(store, found.view, member_id, DRAINED)
        if outcome is None or happened(outcome, shown):
            return found


async def undrain(store: CoordinationStore, name: str, member_id: str, shown: str) -> Found:
    """Withdraw the request of an operator to a member; `InvalidInput` for a request of another process."""
    while True:
        found = await read(store, name)
        found.checked_member(member_id)
        drain = found.view.drains.get(member_id)
        if drain is None:
            return found
        if drain.value != DRAINED:
            hint = (
                "The process of this member ends, or a new process with the same id asked for its place."
                " Such a request cannot be withdrawn. Start the process again."
            )
            raise InvalidInput("member", member_id, "one that an operator drains", hint)
        when = [Unchanged(key=drain.key, revision=drain.revision)]
        if happened(await store.commit(when=when, deletes=[drain.key]), shown):
            return found


async def left_over(store: CoordinationStore, name: str, member_id: str) -> AsyncGenerator[tuple[Found, int], None]:
    """Yield the group and a member's number of partitions, at first and at each new number, until the number is 0."""
    found, last = await read(store, name), None
    async with aclosing(store.watch(found.view.keys.live, after=found.view.revision)) as changes:
        while True:
            count = len(found.owned_by(member_id))
            if count != last:
                yield found, count
            last = count
            if member_id not in found.view.members or not (count or found.view.wanted(member_id)):
                return
            found.view.apply(await anext(changes), 0.0)


async def forget(store: CoordinationStore, name: str, member_id: str, shown: str) -> None:
    """Forget an absent static member, so that the group does not wait for it. `InvalidInput` for a live member."""
    while True:
        found = await read(store, name)
        when = _remembered(found, member_id)
        if happened(await store.commit(when=[when], deletes=[when.key]), shown):
            return


async def drain_and_forget(
    store: CoordinationStore, found: Found, *, drains: Iterable[str], forgets: Iterable[str], shown: str
) -> bool:
    """Drain some members and forget others in one commit that compares the target; return whether it happened."""
    keys, view = found.view.keys, found.view
    when: list[Compare] = [Unchanged(key=keys.target, revision=view.target_revision)]
    puts: list[Put] = []
    for each in drains:
        asked = request_to_leave(view, found.checked_member(each), DRAINED)
        when += [] if asked is None else asked[0]
        puts += [] if asked is None else [asked[1]]
    remembered = [_remembered(found, each) for each in forgets]
    deletes = [each.key for each in remembered]
    return happened(await store.commit(when=[*when, *remembered], puts=puts, deletes=deletes), shown)


def _remembered(found: Found, member_id: str) -> Unchanged:
    statics = found.view.statics
    if member_id in found.view.members:
        hint = f"Stop its process, or ask for its partitions: apportion group drain URL {found.name} {member_id}"
        raise InvalidInput("member", member_id, "an absent static member", hint)
    if member_id not in statics:
        if not statics:
            hint = f"Group {found.name} has no absent static member, and other members need no forget."
            raise InvalidInput("member", member_id, "a static member", hint)
        raise UnknownOption("static member", member_id, statics)
    return Unchanged(key=found.view.keys.static(member_id), revision=statics[member_id][1])


async def release(store: CoordinationStore, name: str, partition: int, shown: str) -> int:
    """Let the next owner take a partition at once; return how many earlier owners in a row had died."""
    while True:
        found = await read(store, name)
        deaths = len(ended(found.view, found.checked_partition(partition)))
        if not deaths:
            return 0
        key = found.view.keys.own(partition)
        when = [Unchanged(key=key, revision=found.view.owned(partition).revision)]
        outcome = await store.commit(when=when, puts=[Put(key=key, value=encoded(_released(found, partition)))])
        if happened(outcome, shown):
            return deaths


def _released(found: Found, partition: int) -> OwnershipRecord:
    """Return the new record of a partition. The record lists no deaths, and names no absent owner."""
    record = found.view.owned(partition).ownership
    is_owned = record.owner is None or found.view.is_live(record)
    return replace(record, ended=()) if is_owned else OwnershipRecord(epoch=record.epoch + 1)


async def resize(store: CoordinationStore, name: str, partitions: int, shown: str) -> Found:
    """Give a group another number of partitions; `Unsafe` while it has a live member. Return the group as before.

    Ownership records stay, even those of removed partitions: if these come back, their epochs continue. Removed
    partitions with a killed member as recorded owner are freed first. A record that names an owner would prove that its
    partition exists (see `witnesses`). The new target names nobody, so that no member claims a removed partition.
    """
    checked_partitions(partitions)
    while True:
        found = await read(store, name)
        if found.view.members:
            raise _in_use(found, sorted(found.view.members))
        if found.record.partitions == partitions:
            return found
        if not await _free_from(store, found, partitions, shown):
            continue
        keys, target = found.view.keys, found.view.target
        after = encoded(replace(found.record, partitions=partitions))
        puts, when = [Put(key=keys.record, value=after)], [Unchanged(key=keys.record, revision=found.record_revision)]
        if target is not None:
            nobody = Target(generation=target.generation + 1, digest="", owners=(None,) * partitions)
            puts.append(Put(key=keys.target, value=encoded_target(nobody)))
            when.append(Unchanged(key=keys.target, revision=found.view.target_revision))
        outcome = await store.commit(when=when, puts=puts)
        if happened(outcome, shown) and isinstance(outcome, Committed):
            await _undo_for_late(store, found, outcome.revision, shown)
            return found


async def _free_from(store: CoordinationStore, found: Found, partitions: int, shown: str) -> bool:
    """Free each partition from a number on, if its record names an owner. False if a record changed meanwhile."""
    view = found.view
    named = sorted(each for each, of in view.own.items() if each >= partitions and of.ownership.owner is not None)
    width = store.capabilities().max_operations // 2  # a compare and a put for each
    for start in range(0, len(named), width):
        freed = named[start : start + width]
        when = [Unchanged(key=view.keys.own(each), revision=view.owned(each).revision) for each in freed]
        puts = [Put(key=view.keys.own(each), value=encoded(_released(found, each))) for each in freed]
        if not happened(await store.commit(when=when, puts=puts), shown):
            return False
    return True


async def _undo_for_late(store: CoordinationStore, before: Found, revision: int, shown: str) -> None:
    """Undo the resize and raise `Unsafe`, if a member joined after the check and before the write."""
    now = await read(store, before.name)
    late = sorted(each for each, there in now.view.members.items() if there.session < revision)
    if not late:
        return
    keys, target = before.view.keys, before.view.target
    puts, when = [Put(key=keys.record, value=encoded(before.record))], [Unchanged(key=keys.record, revision=revision)]
    if target is not None and now.view.target_revision == revision:
        puts.append(Put(key=keys.target, value=encoded_target(target)))
        when.append(Unchanged(key=keys.target, revision=revision))
    happened(await store.commit(when=when, puts=puts), shown)
    raise _in_use(before, late)


def _in_use(found: Found, members: list[str]) -> Unsafe:
    some = ", ".join(members[:8]) + (f", ... {len(members) - 8} more" if len(members) > 8 else "")
    hint = (
        "Nothing was changed. Stop all members first. A killed member counts until its lease has ended, and"
        f" a process must watch the store for that: apportion group watch URL {found.name}"
    )
    return Unsafe(f"group {found.name} is in use by {some}.", hint)


async def told(store: CoordinationStore, name: str) -> AsyncGenerator[HistoryLine, None]:
    """Yield the changes of a group from now on, without end."""
    keys = (await read(store, name)).view.keys
    while True:
        scan = await store.scan(keys.live)
        view = View(keys)
        view.load(scan, 0.0)
        story = Story.begin(view, scan.items)
        yield HistoryLine(revision=scan.revision, kind="begin", text=f"watching {name} from here; Ctrl-C ends it")
        try:
            async with aclosing(_lines(store, story, after=scan.revision)) as lines:
                async for line in lines:
                    yield line
        except Compacted:
            yield HistoryLine(
                revision=scan.revision, kind="gap", text="some changes were missed: the store no longer keeps them"
            )


async def explain(store: CoordinationStore, name: str, partition: int) -> Explained:
    """Return the standing and the history of a partition, from one reading of its group."""
    found = await read(store, name)
    stands = standing(found, found.checked_partition(partition))
    return Explained(found=found, standing=stands, history=await _history(store, found, partition))


async def _history(store: CoordinationStore, found: Found, partition: int) -> tuple[HistoryLine, ...]:
    last = found.view.owned(partition).revision
    lines: list[HistoryLine] = []
    with suppress(TimeoutError):  # after a timeout, return the part that was read in time
        async with asyncio.timeout(_HISTORY_SECONDS):
            async for line in _kept(store, found.view.keys, last):
                lines += [line] if partition in line.partitions else []
    return tuple(lines)


async def _kept(store: CoordinationStore, keys: GroupKeys, last: int) -> AsyncIterator[HistoryLine]:
    """Yield the lines of all changes up to a last one, as far as the store still keeps them."""
    after = 0
    while after < last:
        try:
            async for line in _lines(store, Story(View(keys), unknown_until=after), after=after, last=last):
                yield line
            break
        except Compacted as error:
            after = max(error.oldest, after + 1)


async def _lines(
    store: CoordinationStore, story: Story, *, after: int, last: int | None = None
) -> AsyncGenerator[HistoryLine, None]:
    """Yield the lines of the changes after a revision, up to the last one, or without end."""
    async with aclosing(store.watch(story.view.keys.live, after=after)) as changes:
        async for change in changes:
            for line in story.tell(change):
                yield line
            if last is not None and change.revision >= last:
                return
