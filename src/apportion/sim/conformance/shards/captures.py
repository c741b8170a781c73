"""Captures: from its start, the log has each change of a moving row, and no other change."""

from apportion.errors import Fenced, InvariantBroken
from apportion.shards.channel import ChannelState
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.shards.case import log_case, shard_case
from apportion.sim.conformance.shards.stage import BACK, GROUP, OTHER, STAYS, TOKEN, MoveStage, key_of, token_of

SLOT = GROUP.slots[0]


@shard_case
async def a_channel_begins_with_nothing(stage: MoveStage) -> None:
    """Nothing is captured, copied or compared, and nothing is owed."""
    same(ChannelState(is_drained=True), await (await stage.channel()).state(1), "state of the channel")


@shard_case
async def each_change_of_a_moving_row_arrives(stage: MoveStage) -> None:
    """Inserted, changed, deleted and inserted again: the target gets the last state."""
    await stage.fill(*GROUP.slots)
    channel = await stage.copied()
    first, second, third = (key_of(SLOT, number) for number in range(3))
    await stage.pair.write("one", SLOT, {first: "changed", second: None, 7: "new"})
    await stage.pair.write("one", SLOT, {7: None, third: None})
    await stage.pair.write("one", SLOT, {third: "back", first: "changed again"})
    await stage.drain(channel)
    await stage.equal()
    same("changed again", (await stage.pair.read("two", SLOT))[first], "text")
    same(0, (await channel.state(1)).lag, "lag")


@log_case
async def the_log_has_each_change_of_a_moving_row(stage: MoveStage) -> None:
    """The lag counts the changes until the target has them."""
    channel = await stage.copied()
    for number in range(3):
        await stage.pair.write("one", SLOT, {number: "new"})
        same((number + 1, False), ((await channel.state(1)).lag, (await channel.state(1)).is_drained), "lag")
    await stage.drain(channel)
    same(0, (await channel.state(1)).lag, "lag")


@shard_case
async def a_change_of_a_slot_that_stays_is_not_logged(stage: MoveStage) -> None:
    """The log serves the group alone."""
    channel = await stage.copied()
    await stage.fill(STAYS)
    same((True, 0), ((await channel.state(1)).is_drained, (await channel.state(1)).lag), "log")
    same({}, dict(await stage.pair.read("two", STAYS)), "rows of the target")


@shard_case
async def a_write_that_was_refused_is_not_logged(stage: MoveStage) -> None:
    """Behind the fence the log only shrinks, so it can be drained."""
    channel = await stage.copied()
    await stage.pair.write("one", SLOT, {7: "before"})
    await stage.change("one", "fence")
    holds(not await stage.pair.write("one", SLOT, {8: "after"}), "a fenced slot accepts nobody")
    await stage.drain(channel)
    same({7: "before"}, dict(await stage.pair.read("two", SLOT)), "rows of the target")


@shard_case
async def the_log_can_be_applied_again(stage: MoveStage) -> None:
    """A second handle, as another mover has it, applies the same log, and both shards stay equal."""
    await stage.fill(*GROUP.slots)
    channel, other = await stage.copied(), await stage.channel()
    for text in ("a", "b"):
        await stage.pair.write("one", SLOT, {7: text})
        await other.apply(TOKEN)
        await channel.apply(TOKEN)
        await stage.equal()


@log_case
async def an_entry_is_forgotten_after_the_target_has_its_row(stage: MoveStage) -> None:
    """A target that refuses a part of the log takes it later: the source keeps it."""
    channel = await stage.copied()
    await stage.pair.write("one", SLOT, {7: "new"})
    newer = token_of(TOKEN.epoch + 1)
    await (await stage.shard("two")).guard(GROUP, newer)
    await raises(Fenced, channel.apply(TOKEN), "a part of the log under an older token than that of the target")
    same(1, (await channel.state(1)).lag, "lag")
    await channel.apply(newer)
    await stage.equal()


@log_case
async def a_part_of_the_log_is_applied_to_incoming_slots_alone(stage: MoveStage) -> None:
    """A part that comes after the switch changes no row of the new owner."""
    channel = await stage.copied()
    await stage.pair.write("one", SLOT, {7: "before"})
    await stage.switch()
    await stage.pair.write("two", SLOT, {7: "after"})
    await raises(InvariantBroken, channel.apply(TOKEN), "a part of the log after the switch")
    same({7: "after"}, dict(await stage.pair.read("two", SLOT)), "rows of the new owner")
    same(1, (await channel.state(1)).lag, "lag")


@shard_case
async def groups_of_one_source_are_captured_beside_each_other(stage: MoveStage) -> None:
    """The end of one log does not end another."""
    first, second = await stage.copied(), await stage.copied(OTHER)
    await stage.pair.write("one", GROUP.slots[0], {7: "first"})
    await stage.pair.write("one", OTHER.slots[0], {8: "second"})
    await (await stage.shard("two")).drop(GROUP, TOKEN)
    await first.uncapture(TOKEN)
    same([], await stage.left_behind(), "left behind")
    await stage.pair.write("one", OTHER.slots[1], {9: "later"})
    await stage.drain(second)
    await stage.equal(OTHER)


@shard_case
async def groups_go_both_ways_at_once(stage: MoveStage) -> None:
    """A shard may be the source of one move and the target of another."""
    await stage.fill(*GROUP.slots, *BACK.slots)
    there, back = await stage.prepared(), await stage.prepared(BACK)
    await stage.finish_copy(there)
    await stage.finish_copy(back)
    await stage.pair.write("one", GROUP.slots[0], {7: "there"})
    await stage.pair.write("two", BACK.slots[0], {8: "back"})
    for channel, group in ((there, GROUP), (back, BACK)):
        await stage.drain(channel)
        await stage.verify(channel)
        await stage.equal(group)
