"""Damage: finds records of a group that are readable but wrong. It compares each record with its item in the store.

Promises: each function returns the value of an item, or raises `BadSnapshot` with the reason. An accepted epoch is
never above the revision that wrote it, because each commit raises an epoch by one. So the revision of the store is an
epoch that was never given, and a repair writes that epoch.
Refuses: to guess the content of a damaged record.
"""

from dataclasses import dataclass

from apportion.errors import BadSnapshot
from apportion.groups.view.fields import HINT
from apportion.groups.view.records import (
    GroupRecord,
    MemberRecord,
    OwnershipRecord,
    Target,
    checked_controller,
    checked_drain,
    decoded,
    decoded_target,
)
from apportion.stores.api import Item

NOBODY_OWNS = OwnershipRecord()


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A damaged record: its key, the revision that wrote or deleted it, and the reason.

    `good` is the last undamaged ownership record of that key.
    """

    key: str
    revision: int
    problem: str
    is_deleted: bool = False
    good: OwnershipRecord = NOBODY_OWNS


def member_of(item: Item) -> MemberRecord:
    """Return the record of a live member. The record must have a lease, else it would stay for ever."""
    _check_lease("record of a member", item)
    return decoded(MemberRecord, item.value)


def drain_of(item: Item) -> Item:
    """Return a request to leave. The request must be on the lease of the asked member."""
    _check_lease("request to leave", item)
    checked_drain(item.value)
    return item


def static_of(item: Item) -> tuple[MemberRecord, int]:
    """Return the remembered record of a static member, and the revision that wrote it."""
    return decoded(MemberRecord, item.value), item.revision


def controller_of(item: Item) -> str:
    """Return the mark of the controller, as `led_by` writes it."""
    _check_lease("controller", item)
    return checked_controller(item.value)


def target_of(item: Item | None, settings: GroupRecord | None) -> Target:
    """Return a target: if the settings are known, one owner per partition, and paused only in eager mode."""
    if item is None:
        raise BadSnapshot("target", None, "one that is never deleted", HINT)
    target = decoded_target(item.value)
    if target.generation > item.revision:
        expected = f"at most {item.revision}, the revision that wrote it"
        raise BadSnapshot("generation of a target", target.generation, expected, HINT)
    if settings is None:
        return target
    if len(target.owners) != settings.partitions:
        raise BadSnapshot("owners of a target", len(target.owners), f"{settings.partitions}, one per partition", HINT)
    if target.is_paused and settings.mode == "cooperative":
        raise BadSnapshot("paused of a target", target.is_paused, "false, in a group of cooperative mode", HINT)
    return target


def ownership_of(item: Item | None, before: OwnershipRecord) -> OwnershipRecord:
    """Return an ownership record, checked against the last good record. An item of None is a deleted record."""
    if item is None:
        raise BadSnapshot("ownership record", None, f"one at epoch {before.epoch} or above: it was deleted", HINT)
    after = decoded(OwnershipRecord, item.value)
    if max(after.epoch, after.session) > item.revision:
        expected = f"an epoch and a session of at most {item.revision}, the revision that wrote them"
        raise BadSnapshot("ownership record", max(after.epoch, after.session), expected, HINT)
    is_same = (after.owner, after.session) == (before.owner, before.session)
    if after.epoch < before.epoch or (after.epoch == before.epoch and before.epoch and not is_same):
        expected = f"an epoch higher than {before.epoch}, which was seen before"
        raise BadSnapshot("epoch of OwnershipRecord", after.epoch, expected, HINT)
    return after


def _check_lease(what: str, item: Item) -> None:
    if item.lease is None:
        raise BadSnapshot(what, item.value, "one that ends with a lease", HINT)
