"""Agreement: the settings to which all members of a group agree, compared with the record in the store.

Promises: a process that agreed once never ends because of the record of its group. It treats a later difference as
damage that may be repaired: it tells the difference once, waits, and asks again. Only a process that never agreed gets
`InvalidInput`. A damaged record is written anew. No single record decides the number of partitions: see `witnesses`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import fields, replace

from apportion.errors import BadSnapshot, InvalidInput, shown
from apportion.groups.view.fields import HINT
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, decoded, encoded, later_format
from apportion.groups.view.view import View
from apportion.groups.view.witnesses import partitions_of
from apportion.runtime.events import Disagreed, Observer, Rewritten
from apportion.stores.api import Absent, Committed, CoordinationStore, Item, Put, Unchanged

_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 2.0
_NO_CHANGE = "a group keeps the settings it was made with, and a group of another name may have others."
_CHANGE = {
    "partitions": "apportion group resize changes the partitions of an empty group.",
    "format": "a later release made this group, so upgrade.",
}


class Agreement:
    """The settings that one process states for its group, and whether the store has stated the same before."""

    def __init__(self, store: CoordinationStore, group: str, record: GroupRecord, tell: Observer) -> None:
        self._store, self._group, self._record, self._tell = store, group, record, tell
        self._keys = GroupKeys(group=group)
        self._was_reached = False

    async def reached(self, *, is_over: Callable[[], bool]) -> int:
        """Make the group, or check that it has our settings; return the revision of its record.

        `InvalidInput` if the group has other settings, and never had ours. If it had ours before, the call waits until
        it has them again. `BadSnapshot` if `is_over` says meanwhile that no caller needs the answer.
        """
        pause, told = _PAUSE_SECONDS, ""
        while True:
            try:
                agreed = await self._agreed()
            except InvalidInput as error:
                if not self._was_reached:
                    raise
                if is_over():
                    raise BadSnapshot("group", self._group, "a group with its former settings", HINT) from error
                if error.problem != told:
                    self._tell(Disagreed(why=str(error)))
                told = error.problem
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                self._was_reached = True
                return agreed

    async def _agreed(self) -> int:
        """Return the revision of the group's record, if it has our settings; `InvalidInput` if it has others."""
        while True:
            key, ours = self._keys.record, self._record
            found = next((item for item in (await self._store.scan(key)).items if item.key == key), None)
            there = None if found is None else _read(found.value)
            if found is not None and there == ours:
                if not self._was_reached and await self._is_denied():
                    await self._check(found, there)
                return found.revision
            await self._check(found, there)
            when = Absent(key=key) if found is None else Unchanged(key=key, revision=found.revision)
            outcome = await self._store.commit(when=[when], puts=[Put(key=key, value=encoded(ours))])
            if found is not None and isinstance(outcome, Committed):
                self._tell(Rewritten(key=key, found=shown(found.value)))
            await asyncio.sleep(0)

    async def _is_denied(self) -> bool:
        """Whether the target names more or fewer owners than our settings have partitions."""
        view = View(self._keys)
        view.load(await self._store.scan(self._keys.target), 0.0)
        return view.target is not None and len(view.target.owners) != self._record.partitions

    async def _check(self, found: Item | None, there: GroupRecord | None) -> None:
        """Raise `InvalidInput` unless we may write our record, as the first one or over a damaged one."""
        if there is not None and there.format != self._record.format:
            _check_same(self._group, self._record, there)
        view = View(self._keys)
        view.load(await self._store.scan(self._keys.live), 0.0)
        if found is None and view.target is None:
            return  # nobody made this group yet; a stray ownership record harms only its partition
        said, ours = None if there is None else there.partitions, self._record.partitions
        partitions = partitions_of(said, view, remembered=ours if self._was_reached else None)
        if partitions is None:
            return
        there = replace(self._record if there is None else there, partitions=partitions)
        if found is None or not self._was_reached or _joined_under(found, view):
            _check_same(self._group, self._record, there)
        _check_same(self._group, self._record, replace(self._record, partitions=partitions))


def _joined_under(found: Item, view: View) -> bool:
    """Whether a live member joined after the group's record was written. Such a member has agreed to the record.

    Only the number of partitions ever changes in that record, and only while the group has no live member.
    """
    return any(there.session > found.revision for there in view.members.values() if there.record.nonce)


def _read(value: bytes) -> GroupRecord | None:
    later = later_format(value)
    if later is not None:
        return GroupRecord(partitions=1, format=later)
    try:
        return decoded(GroupRecord, value)
    except BadSnapshot:
        return None


def _check_same(group: str, record: GroupRecord, there: GroupRecord) -> None:
    for what in ("format", *(each.name for each in fields(record) if each.name != "format")):
        said, is_so = getattr(record, what), getattr(there, what)
        if said != is_so:
            hint = f"All members of a group pass the same value; {_CHANGE.get(what, _NO_CHANGE)}"
            raise InvalidInput(f"{what} of group {group}", said, f"{is_so!r}, as the group was made", hint)
