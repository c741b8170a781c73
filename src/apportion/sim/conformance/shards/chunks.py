"""Chunks: the rows of a group are copied while writers write, and a copy never overwrites a newer row."""

from apportion.errors import InvariantBroken
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.shards.case import log_case, shard_case
from apportion.sim.conformance.shards.stage import GROUP, OTHER, STAYS, TOKEN, MoveStage, key_of

SLOT, LAST = GROUP.slots[0], GROUP.slots[-1]
_MANY_ROWS = 900


@shard_case
async def the_copy_has_all_rows_of_the_group_and_no_others(stage: MoveStage) -> None:
    """Slots that stay, or move with another group, are not copied."""
    await stage.fill(*GROUP.slots, *OTHER.slots, STAYS)
    channel = await stage.copied()
    await stage.equal()
    same(3 * 40, (await channel.state(1)).copied, "rows copied")
    for slot in (*OTHER.slots, STAYS):
        same({}, dict(await stage.pair.read("two", slot)), f"rows of slot {slot}")


@shard_case
async def the_source_keeps_its_rows_and_its_writers(stage: MoveStage) -> None:
    """Until the fence, nobody notices the move."""
    await stage.fill(*GROUP.slots)
    await stage.copied()
    same(({"owner"}, {"incoming"}), (await stage.states("one"), await stage.states("two")), "states")
    same(40, len(await stage.pair.read("one", SLOT)), "rows of the source")
    holds(await stage.pair.write("one", SLOT, {7: "written"}), "the source accepts writers")


@shard_case
async def a_group_without_rows_is_copied_too(stage: MoveStage) -> None:
    """An empty slot moves like any other."""
    channel = await stage.copied()
    await stage.verify(channel)
    same((True, True), ((await channel.state(1)).is_copied, (await channel.state(1)).is_verified), "state")


@shard_case
async def another_mover_goes_on_from_the_cursor(stage: MoveStage) -> None:
    """A killed mover has copied whole chunks. The next mover goes on after the last one, and copies each row once."""
    await stage.fill(*GROUP.slots)
    await stage.prepared()
    for _ in range(1_000):
        channel = await stage.channel()
        if (await channel.state(1)).is_copied:
            break
        await channel.copy(TOKEN)
    await stage.equal()
    same(3 * 40, (await channel.state(1)).copied, "rows copied, each once")


@shard_case
async def a_row_that_changes_before_and_behind_the_cursor_arrives(stage: MoveStage) -> None:
    """A changed row arrives, whether its chunk was copied before or not. Deleted rows do not come back."""
    await stage.fill(*GROUP.slots)
    channel = await stage.prepared()
    for turn in range(4):
        await channel.copy(TOKEN)
        for slot in (SLOT, LAST):
            first = key_of(slot, 5 * turn)
            await stage.pair.write("one", slot, {first: f"turn {turn}", first + 1: None, 500 + turn: "new"})
    await stage.finish_copy(channel)
    await stage.drain(channel)
    await stage.equal()


@shard_case
async def an_applied_row_is_not_overwritten_by_a_chunk(stage: MoveStage) -> None:
    """The log may be applied while chunks are left."""
    await stage.fill(*GROUP.slots)
    channel = await stage.prepared()
    for turn in range(3):
        await channel.copy(TOKEN)
        await stage.pair.write("one", LAST, {key_of(LAST, turn): f"turn {turn}", 600 + turn: "new"})
        await stage.drain(channel)
    await stage.finish_copy(channel)
    await stage.drain(channel)
    await stage.equal()


@log_case
async def rows_that_were_read_before_the_log_was_applied_are_not_written_after_it(stage: MoveStage) -> None:
    """A channel may read many rows at once, and write them in several chunks."""
    many = {number: f"text {number}" for number in range(_MANY_ROWS)}
    await stage.fill(SLOT, rows=many)
    channel = await stage.prepared()
    await channel.copy(TOKEN)
    while (await channel.state(1)).copied == 0:
        await channel.copy(TOKEN)  # the first calls may only delete old rows
    first, second = key_of(SLOT, _MANY_ROWS - 2), key_of(SLOT, _MANY_ROWS - 1)
    holds(not (await channel.state(1)).is_copied, "a chunk is left")
    await stage.pair.write("one", SLOT, {first: "newer", second: None})
    await stage.drain(channel)
    await stage.finish_copy(channel)
    await stage.drain(channel)
    await stage.equal()


@shard_case
async def old_rows_of_the_target_do_not_survive_the_copy(stage: MoveStage) -> None:
    """Rows that an earlier life of the slot left there are deleted: the target has the rows of the source alone."""
    await stage.fill(*GROUP.slots)
    await stage.pair.plant("two", SLOT, {1: "old", key_of(SLOT, 0): "old too"})
    channel = await stage.copied()
    await stage.verify(channel)
    await stage.equal()


@shard_case
async def a_copy_begins_with_incoming_slots_alone(stage: MoveStage) -> None:
    """The first call deletes old rows of the target. After a switch they belong to its new owner."""
    await stage.fill(SLOT)
    channel = await stage.prepared()
    await stage.switch()
    await stage.pair.write("two", SLOT, {7: "new"})
    await raises(InvariantBroken, channel.copy(TOKEN), "the first call of a copy after the switch")
    same({7: "new"}, dict(await stage.pair.read("two", SLOT)), "rows of the new owner")


@log_case
async def a_chunk_is_written_to_incoming_slots_alone(stage: MoveStage) -> None:
    """A chunk that comes after the switch brings no row to the new owner."""
    await stage.fill(SLOT)
    channel = await stage.prepared()
    await channel.copy(TOKEN)
    holds(not (await channel.state(1)).is_copied, "a chunk is left")
    before = dict(await stage.pair.read("two", SLOT))
    await stage.switch()
    await raises(InvariantBroken, channel.copy(TOKEN), "a chunk after the switch")
    same(before, dict(await stage.pair.read("two", SLOT)), "rows of the new owner")


@shard_case
async def a_switched_group_has_all_acknowledged_rows(stage: MoveStage) -> None:
    """Rows that were accepted before the fence are on the target when the log is drained."""
    await stage.fill(*GROUP.slots)
    channel = await stage.copied()
    accepted = {}
    for number in range(20):
        if number == 12:
            await stage.change("one", "fence")
        if await stage.pair.write("one", SLOT, {number: "written"}):
            accepted[number] = "written"
    same(list(range(12)), list(accepted), "accepted rows")
    await stage.drain(channel)
    await stage.switch()
    found = await stage.pair.read("two", SLOT)
    same(accepted, {number: text for number, text in found.items() if number < 20}, "rows of the new owner")
