"""`apportion group repair`: the damaged records of a group, each written anew or taken away.

Promises: nothing that can be right is touched, for each commit compares what was read. The epoch of a partition becomes
the revision of the store: none that was ever given is above it, so that no token comes twice. Where a living member or
controller writes its record anew first, that stands.
Refuses: to guess whose a partition was. It belongs to nobody, and its next owner claims it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.console.print.output import print_json
from apportion.groups.admin.found import Found, happened, read
from apportion.groups.damage import Damage
from apportion.groups.records import OwnershipRecord, Target, encoded, encoded_target
from apportion.stores.api import CoordinationStore, Put, Unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A record that was damaged, and what was done about it."""

    damage: Damage
    deed: str


async def repair(store: CoordinationStore, name: str, shown: str) -> tuple[Repaired, ...]:
    """Repair all damaged records of a group, one commit each; return what was done."""
    done: list[Repaired] = []
    while (found := await read(store, name)).damaged:
        damage = found.damaged[0]
        put, deed = _mended(found, damage)
        compare = found.view.as_seen(damage.key)
        if damage.key == found.view.keys.record:
            compare = Unchanged(key=damage.key, revision=found.record_revision)
        puts, deletes = ([], [damage.key]) if put is None else ([put], [])
        if happened(await store.commit(when=[compare], puts=puts, deletes=deletes), shown):
            done.append(Repaired(damage=damage, deed=deed))
    return tuple(done)


def print_repairs(name: str, done: Sequence[Repaired], *, json: bool) -> None:
    """Print what was done, a record each."""
    if json:
        rows = [{"key": each.damage.key, "problem": each.damage.problem, "done": each.deed} for each in done]
        print_json("group repair", group=name, repaired=rows)
        return
    for each in done:
        print(f"{each.damage.key}: {each.damage.problem}\n  {each.deed}")
    words = f"{len(done)} record" + "s" * (len(done) != 1) + " repaired" if done else "no record is damaged"
    print(f"group repair: {name}: {words}")


def _mended(found: Found, damage: Damage) -> tuple[Put | None, str]:
    """Return what takes the place of a damaged record, None for nothing; and that in words."""
    view, keys, key = found.view, found.view.keys, damage.key
    if key == keys.record:
        record = found.record
        words = f"written anew: {record.partitions} partitions, {record.mode}, {record.balancer}"
        return Put(key=key, value=encoded(record)), words
    if key == keys.target:
        owners = tuple(_living_owner(found, each) for each in range(found.record.partitions))
        target = Target(generation=view.revision, digest="", owners=owners)
        return Put(key=key, value=encoded_target(target)), "written anew: each keeps what it owns"
    if key.startswith(keys.own(0)[:-1]):
        nobody = OwnershipRecord(epoch=view.revision)
        return Put(key=key, value=encoded(nobody)), f"written anew: nobody owns it, epoch {view.revision}"
    return None, "taken away"


def _living_owner(found: Found, partition: int) -> str | None:
    ownership = found.view.owned(partition).ownership
    return ownership.owner if found.view.is_live(ownership) else None
