"""The vandal: damage to the data of a store, as an intruder or a broken disk might do it."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError
from apportion.groups.view.keys import GROUPS, LIVE, GroupKeys
from apportion.stores import Put, Unchanged

if TYPE_CHECKING:
    from apportion.sim.world.nemesis import Nemesis

VANDAL = "(vandal)"  # the process that damages records; names in brackets belong to no member
SCHEDULE_DAMAGE: tuple[dict[str, object], ...] = (
    {"rule": "30 2 * *"},
    {"zone": "Mars/Olympus"},
    {"missed": "some"},
    {"next_slot": -1},
    {"version": -1},
    {"arguments": b"\xff"},
)


async def damage_record(nemesis: "Nemesis") -> None:
    """Overwrite a record with an invalid or foreign value, as an intruder might."""
    world, draw = nemesis.world, nemesis.draw
    items = [item for key, item in sorted(world.checker.history.items.items()) if key.startswith(LIVE)]
    if not items:
        return
    item = draw.choice(items)
    values = [b"", b"{}", b"\xff\x00", b"[" * 9_999, item.value[: len(item.value) // 2]]
    values += [other.value for other in items if GroupKeys.parsed(other.key)[1] != GroupKeys.parsed(item.key)[1]]
    if world.trace.inject("damaged record", item.key):
        put = Put(key=item.key, value=draw.choice(values), lease=draw.choice([None, item.lease]))
        store = world.store(VANDAL)
        with suppress(ApportionError):  # the write comes too late, or the store is away
            await store.scan(GROUPS)
            await store.commit(when=[Unchanged(key=item.key, revision=item.revision)], puts=[put])


async def damage_schedule(nemesis: "Nemesis") -> None:
    """Overwrite a field of a schedule with a value that no release writes."""
    world, draw, tasks = nemesis.world, nemesis.draw, nemesis.world.checker.history.tasks
    rows = [] if tasks is None else [row for _, row in sorted(tasks.schedules.items())]
    if rows and world.trace.inject("damaged schedule", (row := draw.choice(rows)).name):
        fields: dict[str, Any] = draw.choice(SCHEDULE_DAMAGE)
        world.overwrite(replace(row, **fields))
