"""Leftovers: an aborted move, and a finished one, leave nothing behind on either shard."""

from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.shards.case import shard_case
from apportion.sim.conformance.shards.stage import GROUP, OTHER, STAYS, TOKEN, MoveStage


@shard_case
async def an_aborted_move_leaves_nothing_behind(stage: MoveStage) -> None:
    """After the drop, all copied rows, rows of slots, cursors and the log are gone."""
    await stage.fill(*GROUP.slots, STAYS)
    channel = await stage.copied()
    await stage.pair.write("one", GROUP.slots[0], {1: "written"})
    await stage.verify(channel)
    holds(await stage.left_behind(), "an open move is reported")
    await (await stage.shard("two")).drop(GROUP, TOKEN)
    await channel.uncapture(TOKEN)
    same([], await stage.left_behind(), "left behind")
    same({}, dict(await stage.pair.read("two", GROUP.slots[0])), "rows of the target")
    same({None}, await stage.states("two"), "states of the target")
    same(41, len(await stage.pair.read("one", GROUP.slots[0])), "rows of the source")


@shard_case
async def an_act_that_ends_a_move_may_come_twice(stage: MoveStage) -> None:
    """Its reply may have been lost."""
    channel = await stage.copied()
    for _ in range(2):
        await (await stage.shard("two")).drop(GROUP, TOKEN)
        await channel.uncapture(TOKEN)
    same([], await stage.left_behind(), "left behind")
    await channel.capture(TOKEN)
    await channel.capture(TOKEN)
    holds((await channel.state(1)).is_captured, "a move can begin again")


@shard_case
async def a_finished_move_leaves_nothing_behind(stage: MoveStage) -> None:
    """After the last batch of `clean` the source has a tombstone for each slot, and no row."""
    await stage.fill(*GROUP.slots, STAYS)
    channel = await stage.copied()
    await stage.switch()
    await channel.uncapture(TOKEN)
    holds(await stage.left_behind(), "old rows are reported")
    await stage.clean()
    same([], await stage.left_behind(), "left behind")
    same(({"moved"}, {"owner"}), (await stage.states("one"), await stage.states("two")), "states")
    same(40, len(await stage.pair.read("two", GROUP.slots[0])), "rows of the new owner")


@shard_case
async def a_drop_gives_a_tombstone_back(stage: MoveStage) -> None:
    """A slot that had moved away before gets the state `moved` back, so that no old table can open the slot."""
    await stage.change("two", "prepare")
    await stage.change("two", "settle-target")
    await stage.change("two", "fence")
    await stage.change("two", "settle-source")
    await stage.change("two", "prepare")
    same({"incoming"}, await stage.states("two"), "states")
    await stage.change("two", "prepare")
    await (await stage.shard("two")).drop(GROUP, TOKEN)
    same({"moved"}, await stage.states("two"), "states")


@shard_case
async def a_drop_spares_rows_of_an_owner_and_of_other_moves(stage: MoveStage) -> None:
    """It deletes rows of slots that are on their way here by this move, and no others."""
    await stage.fill(*GROUP.slots, *OTHER.slots)
    await stage.copied()
    await stage.copied(OTHER)
    await stage.switch()
    await (await stage.shard("two")).drop(GROUP, TOKEN)
    same({"owner"}, await stage.states("two"), "states")
    same(40, len(await stage.pair.read("two", GROUP.slots[0])), "rows of the owner")
    await stage.equal(OTHER)
    same({"incoming"}, await stage.states("two", OTHER), "states of the other move")
