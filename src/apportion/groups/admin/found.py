"""Found: a group as its store shows it to an outsider, read once or watched by the caller.

Promises: a reader joins no group, and makes no store where there is none. An unknown name is an error that gives the
nearest name.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TypeVar, TypeVarTuple

from apportion.errors import BadSnapshot, Compacted, InvalidInput, StoreUnavailable, UnknownOption
from apportion.errors.brief import brief
from apportion.groups.crash_loops import next_try
from apportion.groups.settled import is_at_rest, is_settled
from apportion.groups.view.damage import Damage
from apportion.groups.view.fields import parsed
from apportion.groups.view.keys import GROUPS, GroupKeys
from apportion.groups.view.records import GroupRecord, checked_group, decoded, is_id
from apportion.groups.view.view import View
from apportion.groups.view.witnesses import partitions_of
from apportion.runtime.clock import SystemClock
from apportion.stores.api import Committed, CoordinationStore, Item, Need, Outcome, Refused, Scan
from apportion.stores.catalog import opened
from apportion.tables.layout import MAX_NAME_BYTES

_REPLAY_SECONDS = 1.0
_NEEDS: tuple[Need, ...] = ("fencing", "gapless_watch", "linearizable")
Given = TypeVarTuple("Given")
Reply = TypeVar("Reply")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A group that was found: its record, the revision that wrote the record, and a view of its live records.

    If no member renewed its lease during `looked_seconds`, `unseen` lists all members; else it is empty. `is_whole`
    says that the history in the store was read to its end. `is_guessed` says that defaults replace settings that
    cannot be read.
    """

    name: str
    record: GroupRecord
    record_revision: int
    view: View
    unseen: tuple[str, ...] = ()
    looked_seconds: float = 0.0
    is_whole: bool = True
    is_guessed: bool = False

    @property
    def unsettled(self) -> tuple[int, ...]:
        """All partitions if the target is missing or paused; else those without their wanted owner. O(partitions)."""
        view, target = self.view, self.view.target
        every = range(self.record.partitions)
        if target is None or target.is_paused:
            return tuple(every)
        return tuple(each for each in every if not is_settled(view, each, self.wanted(each)))

    @property
    def is_settled(self) -> bool:
        """Whether the target knows all members, each partition has its wanted owner, and the members seem alive."""
        return is_at_rest(self.view) and not self.unseen

    def wanted(self, partition: int) -> str | None:
        """Return the member that should own a partition by the present target, None for nobody."""
        target = self.view.target
        if target is None or target.is_paused or partition >= len(target.owners):
            return None
        return target.owners[partition]

    @property
    def damaged(self) -> tuple[Damage, ...]:
        """The damaged records, by key."""
        return tuple(damage for _, damage in sorted(self.view.damaged.items()))

    @property
    def loads(self) -> tuple[Counter[str | None], Counter[str | None]]:
        """The number of partitions that each member owns, and should own. O(partitions)."""
        view, every = self.view, range(self.record.partitions)
        owned = (each.ownership.owner for each in view.own.values() if view.is_live(each.ownership))
        return Counter(owned), Counter(map(self.wanted, every))

    def owned_by(self, member_id: str) -> tuple[int, ...]:
        """Return the partitions that a member owns in its present session. O(partitions)."""
        own = self.view.own
        return tuple(
            each
            for each in sorted(own)
            if own[each].ownership.owner == member_id and self.view.is_live(own[each].ownership)
        )

    def wait_seconds(self, partition: int) -> float:
        """Return how long the next owner waits after it saw the last session end; infinity in quarantine."""
        return max(0.0, next_try(self.view, partition) - self.view.owned(partition).since)

    def checked_partition(self, partition: int) -> int:
        """Return a partition of this group; `InvalidInput` for any other number."""
        if type(partition) is not int or not 0 <= partition < self.record.partitions:
            hint = f"Group {self.name} has {self.record.partitions} partitions, numbered from 0."
            raise InvalidInput("partition", partition, f"one of 0 .. {self.record.partitions - 1}", hint)
        return partition

    def checked_member(self, member_id: str) -> str:
        """Return the id of a live member; `UnknownOption` names the nearest."""
        return _known("member", member_id, self.view.members, f"Group {self.name} has no live member now.")


async def asked(
    url: str, act: Callable[[CoordinationStore, *Given], Coroutine[None, None, Reply]], *given: *Given
) -> Reply:
    """Open the store of a URL, call `act` on it, and return the answer. The errors are those of `opened`."""
    async with opened(url, needs=_NEEDS) as store:
        return await act(store, *given)


async def followed(
    url: str, act: Callable[[CoordinationStore, *Given], AsyncGenerator[Reply, None]], *given: *Given
) -> AsyncGenerator[Reply, None]:
    """Open the store of a URL, and yield the answers of the generator `act` on it. The errors are those of `opened`."""
    async with opened(url, needs=_NEEDS) as store, aclosing(act(store, *given)) as replies:
        async for each in replies:
            yield each


async def read(store: CoordinationStore, name: str, *, replay_seconds: float = _REPLAY_SECONDS) -> Found:
    """Read a whole group, as its members see it; `UnknownOption` names the nearest group.

    Its history is read for at most `replay_seconds`.
    """
    keys = GroupKeys(group=checked_group(name))
    items = (await store.scan(keys.record)).items
    item = next((each for each in items if each.key == keys.record), None)
    if item is None:
        _known("group", name, await _names(store), "This store holds no group. The first member of a group makes it.")
        return await read(store, name, replay_seconds=replay_seconds)  # the group was made between the two scans
    scan = await store.scan(keys.live)
    record, damage = _record(item, keys, scan)
    view, is_whole = await _replayed(store, partial(View, keys, record), scan, replay_seconds)
    view.load(scan, SystemClock().elapsed())
    if damage is not None:
        view.damaged[keys.record] = damage
    is_guessed = damage is not None and not _shows_settings(item.value)
    return Found(
        name=name, record=record, record_revision=item.revision, view=view, is_whole=is_whole, is_guessed=is_guessed
    )


def _record(item: Item, keys: GroupKeys, scan: Scan) -> tuple[GroupRecord, Damage | None]:
    """Return the record of a group, each field as far as it can be read, and the damage of that record, if any.

    The number of partitions is the one that most records show; see `witnesses`.
    """
    view, problem = View(keys), None
    view.load(scan, 0.0)
    try:
        record = decoded(GroupRecord, item.value)
        partitions = partitions_of(record.partitions, view)
    except BadSnapshot as error:
        problem, record = error.problem, _as_far_as_read(item.value)
        partitions = partitions_of(None, view)
    if problem is None and partitions != record.partitions:
        problem = f"partitions of GroupRecord is {record.partitions}, expected {partitions}, as the other records say."
    damage = None if problem is None else Damage(key=keys.record, revision=item.revision, problem=problem)
    return replace(record, partitions=partitions or record.partitions), damage


def _shows_settings(value: bytes) -> bool:
    """Whether the record of a group shows all its settings, apart from the number of partitions."""
    try:
        said = parsed(value)
        decoded(GroupRecord, json.dumps(said | {"partitions": 1}).encode())
    except BadSnapshot:
        return False
    return said.keys() >= {"mode", "balancer"}


def _as_far_as_read(value: bytes) -> GroupRecord:
    """Return the record of a group: each field of its damaged record that can be read, else the default."""
    record = GroupRecord(partitions=1)
    try:
        said = parsed(value)
    except BadSnapshot:
        return record
    for each in said.keys() & asdict(record).keys():
        with suppress(BadSnapshot):
            record = decoded(GroupRecord, json.dumps(asdict(record) | {each: said[each]}).encode())
    return record


async def _replayed(
    store: CoordinationStore, fresh: Callable[[], View], scan: Scan, seconds: float
) -> tuple[View, bool]:
    """Return a view that has taken the history in the store, and whether it took all of it in time.

    Only a comparison with the epoch before finds an epoch that went back, so the view needs the history. If the store
    forgets a part of its history meanwhile, the view begins anew after that part. So the view never names an owner from
    before the forgotten part.
    """
    last = max((item.revision for item in scan.items), default=0)
    view, after = fresh(), 0
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while after < last:
                try:
                    after = await _taken(store, view, after, last)
                except Compacted as error:
                    view, after = fresh(), max(error.oldest, after + 1)
    view.incarnation = scan.incarnation
    return view, after >= last


async def _taken(store: CoordinationStore, view: View, after: int, last: int) -> int:
    """Take the changes after a revision, up to `last`; return the revision of the last change taken."""
    async with aclosing(store.watch(view.keys.live, after=after)) as changes:
        async for change in changes:
            view.apply(change, 0.0)
            after = change.revision
            if after >= last:
                break
    return after


async def read_all(store: CoordinationStore) -> list[Found]:
    """Read every group of a store; keys that name no group are skipped."""
    return [await read(store, name) for name in await _names(store)]


async def _names(store: CoordinationStore) -> list[str]:
    """Return the names of all groups; a key that names no group belongs to another program."""
    names = [each.key.removeprefix(GROUPS) for each in (await store.scan(GROUPS)).items]
    return [name for name in names if is_id(name) and len(name.encode()) <= MAX_NAME_BYTES]


def happened(outcome: Outcome, store: str) -> bool:
    """Return True if a commit happened, False if a changed record prevented it; `StoreUnavailable` if it is unknown."""
    if isinstance(outcome, Committed | Refused):
        return isinstance(outcome, Committed)
    hint = "The commit may have happened, or may still happen: look with apportion group show before you try again."
    raise StoreUnavailable(store, f"no answer to a commit ({outcome.reason})", hint)


def _known(what: str, name: str, known: Iterable[str], none: str) -> str:
    names = sorted(known)
    if not names:
        raise InvalidInput(what, name, f"an existing {what}", none)
    if name not in names:
        raise UnknownOption(what, name, names)
    return name
