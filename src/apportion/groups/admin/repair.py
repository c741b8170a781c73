"""Repair: writes each damaged record of a group anew, or removes it.

Promises: an undamaged record is not touched: each commit compares the record that was read. The epoch of a
partition becomes the revision of the store. No epoch that was ever given is above that revision, so no token is given
twice. If a living member or controller writes its record anew first, that record stands. A partition stays with the
last owner in the history of the store, while the session of that owner lives. A planned move from that owner
continues, and never makes two owners.
Refuses: to guess. A partition without history belongs to nobody, and its next owner claims it. If a group record does
not show all its settings, the next member that joins writes it, because that member knows them.
"""

from dataclasses import dataclass, replace

from apportion.errors.brief import brief
from apportion.groups.admin.found import Found, happened, read
from apportion.groups.view.damage import Damage
from apportion.groups.view.records import OwnershipRecord, Target, encoded, encoded_target
from apportion.stores.api import CoordinationStore, Put, Unchanged

REPLAY_SECONDS = 60.0
"""The longest time to read the history of a group."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The key of a record that was damaged, the damage in words, and the repair in words."""

    key: str
    problem: str
    deed: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """All repairs of a group in their order, and whether the history in the store was read to its end.

    `left` is the problem of the group record where a member has to write it, else "".
    """

    repairs: tuple[Repair, ...]
    is_whole: bool
    left: str = ""


async def mend(store: CoordinationStore, name: str, shown: str) -> Repaired:
    """Repair all damaged records of a group, one commit each."""
    done: list[Repair] = []
    while damaged := _independent(found := await read(store, name, replay_seconds=REPLAY_SECONDS)):
        for damage in damaged:
            put, deed = _mended(found, damage)
            compare = found.view.as_seen(damage.key)
            if damage.key == found.view.keys.record:
                compare = Unchanged(key=damage.key, revision=found.record_revision)
            puts, deletes = ([], [damage.key]) if put is None else ([put], [])
            if happened(await store.commit(when=[compare], puts=puts, deletes=deletes), shown):
                done.append(Repair(key=damage.key, problem=damage.problem, deed=deed))
    left = "".join(each.problem for each in found.damaged)
    return Repaired(repairs=tuple(done), is_whole=found.is_whole, left=left)


def _independent(found: Found) -> tuple[Damage, ...]:
    """Return the damage that can be repaired now: the group record comes first, the target last."""
    keys = found.view.keys
    damaged = tuple(each for each in found.damaged if each.key != keys.record or not found.is_guessed)
    first = tuple(each for each in damaged if each.key == keys.record)
    others = tuple(each for each in damaged if each.key not in (keys.record, keys.target))
    return first or others or damaged


def _mended(found: Found, damage: Damage) -> tuple[Put | None, str]:
    """Return the replacement of a damaged record (None: delete the record), and the repair in words."""
    view, keys, key = found.view, found.view.keys, damage.key
    if key == keys.record:
        record = found.record
        words = f"written anew: {record.partitions} partitions, {record.mode}, {record.balancer}"
        return Put(key=key, value=encoded(record)), words
    if key == keys.target:
        records = [view.owned(each).ownership for each in range(found.record.partitions)]
        owners = tuple(record.owner if view.is_live(record) else None for record in records)
        target = Target(generation=view.revision, digest="", owners=owners)
        return Put(key=key, value=encoded_target(target)), "written anew: each member keeps its partitions"
    if key.startswith(keys.own(0)[:-1]):
        return _owned_anew(found, damage)
    return None, "taken away"


def _owned_anew(found: Found, damage: Damage) -> tuple[Put, str]:
    """Return a new record of a partition at an unused epoch, for its last owner or nobody; and the repair in words."""
    view, last = found.view, damage.good
    anew = OwnershipRecord(epoch=view.revision)
    if not found.is_whole or not last.epoch:
        whose = "it has no owner, because the history does not show the last one"
    elif view.is_live(last):
        anew = replace(last, epoch=view.revision)
        whose = f"its last owner {last.owner} keeps it (session {last.session})"
    else:
        gone = "nobody owned it" if last.owner is None else f"session {last.session} of {last.owner} is over"
        whose = f"it has no owner, because {gone}"
    return Put(key=damage.key, value=encoded(anew)), f"written anew: {whose}, epoch {view.revision}"
