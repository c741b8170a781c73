"""One controller of 1 000 simulated members and 100 000 partitions: to plan, and to write what was planned.

The members are records in a view, no processes; the store that is written to is a file of SQLite.
"""

import asyncio
import gc
import tempfile
from pathlib import Path
from time import perf_counter

from apportion.groups.controller.controller import Controller, Write
from apportion.groups.log import log
from apportion.groups.opening import Options
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, encoded
from apportion.groups.view.view import View
from apportion.stores import Absent, Committed, Item, Put, Scan, Unchanged, connect
from bench.goal import at_most
from bench.row import Row

MEMBERS, PARTITIONS = 1_000, 100_000
PLAN, PUBLISH = at_most(300, "ms"), at_most(2, "s")


def rows() -> list[Row]:
    """Plan for one member less, and write the target."""
    plan, write = _planned()
    publish = asyncio.run(_published(write))
    what = f"controller, {MEMBERS} simulated members, {PARTITIONS} partitions"
    return [
        Row(
            name=f"{what}: plan after one left",
            value=plan,
            shown=f"{plan:.0f} ms",
            goal=str(PLAN),
            met=PLAN.is_met(plan),
        ),
        Row(
            name=f"{what}: write the target, SQLite",
            value=publish,
            shown=f"{1000 * publish:.0f} ms, {len(write.put.value) / 1000:.0f} kB",
            goal=str(PUBLISH),
            met=PUBLISH.is_met(publish),
        ),
    ]


def _planned() -> tuple[float, Write]:
    keys, group = GroupKeys(group="bench"), GroupRecord(partitions=PARTITIONS)
    view = View(keys, group)
    ids = [f"worker-{number:04}" for number in range(MEMBERS)]
    items = {keys.member(each): encoded(MemberRecord(nonce=each)) for each in ids}
    items[keys.controller] = b"worker-0000 1"
    _load(view, items)
    options = Options(group="bench", record=group, member_id=ids[0], member=MemberRecord(nonce=""))
    controller = Controller(view, options, log)
    first = controller.look(0.0)
    if first is None or first.target is None:
        raise RuntimeError("the controller planned nothing")
    items[keys.target] = first.put.value
    sessions: dict[str | None, int] = {each: number for number, each in enumerate(ids, start=1)}
    for partition, owner in enumerate(first.target.owners):
        items[keys.own(partition)] = encoded(OwnershipRecord(owner=owner, session=sessions[owner], epoch=1))
    controller.answered(True, 0.0)
    del items[keys.member(ids[-1])]
    _load(view, items)
    gc.collect()  # a collection of all that the peers hold would count otherwise
    began = perf_counter()
    write = controller.look(0.0)
    took = 1000 * (perf_counter() - began)
    if write is None:
        raise RuntimeError("the controller planned nothing")
    return took, write


def _load(view: View, items: dict[str, bytes]) -> None:
    at = {key: number for number, key in enumerate(items, start=1)}
    there = tuple(Item(key=key, value=value, revision=at[key], lease=1) for key, value in items.items())
    view.load(Scan(items=there, revision=len(there), incarnation=1), 0.0)


async def _published(write: Write) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = await connect(f"sqlite:///{Path(folder) / 'bench.db'}")
        made = await store.commit(when=[Absent(key=write.put.key)], puts=[Put(key=write.put.key, value=b"")])
        if not isinstance(made, Committed):
            raise TypeError("the store refused the first target")
        began = perf_counter()
        at_target = Unchanged(key=write.put.key, revision=made.revision)
        await store.commit(when=[at_target], puts=[write.put])
        took = perf_counter() - began
        await store.close()
        return took
