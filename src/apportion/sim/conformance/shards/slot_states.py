"""The rows of slots: a change names the states that it accepts, and the state decides about writers."""

from apportion.shards.move_group import MoveGroup
from apportion.shards.reshard import Label
from apportion.shards.slot_rows import SlotRow
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.shards.case import shard_case
from apportion.sim.conformance.shards.stage import BACK, GROUP, NUMBER, STAYS, TOKEN, MoveStage

ROW = {7_000: "row"}


@shard_case
async def the_rows_of_slots_come_in_the_order_of_the_group(stage: MoveStage) -> None:
    """A slot that was never here has no row; an owned one has a row without a number."""
    mixed = MoveGroup(move="move-9", source="one", target="two", slots=(6, 7, 8))
    same([SlotRow(state="owner"), SlotRow(state="owner"), None], await stage.rows("one", mixed), "rows")
    same([None, None, SlotRow(state="owner")], await stage.rows("two", mixed), "rows")


@shard_case
async def a_change_leaves_rows_of_other_states_as_they_are(stage: MoveStage) -> None:
    """A change that is made twice, late, or on the wrong shard, does no harm."""
    early: tuple[Label, ...] = ("unfence", "settle-source", "settle-target", "announce", "withdraw")
    late: tuple[Label, ...] = ("fence", "unfence", "announce", "settle-source", "settle-target")
    for act in early:
        await stage.change("one", act)
    same({"owner"}, await stage.states("one"), "states")
    for act in late:
        await stage.change("two", act)
    same({None}, await stage.states("two"), "states")
    for _ in range(2):
        await stage.change("one", "fence")
        await stage.change("two", "prepare")
    same(({"fenced"}, {"incoming"}), (await stage.states("one"), await stage.states("two")), "states")


@shard_case
async def a_change_sets_the_number_or_keeps_it(stage: MoveStage) -> None:
    """A row gets the number of a table version by `announce`, keeps it in later states, and loses it by `withdraw`."""
    await stage.change("two", "prepare")
    same([SlotRow(state="incoming")] * 3, await stage.rows("two"), "rows")
    await stage.change("two", "announce", number=NUMBER)
    same([SlotRow(state="incoming", number=NUMBER)] * 3, await stage.rows("two"), "rows")
    await stage.change("two", "withdraw")
    same([SlotRow(state="incoming")] * 3, await stage.rows("two"), "rows")
    await stage.change("two", "announce", number=NUMBER)
    await stage.change("two", "settle-target")
    same([SlotRow(state="owner", number=NUMBER)] * 3, await stage.rows("two"), "rows")
    await stage.change("two", "fence")
    same([SlotRow(state="fenced", number=NUMBER)] * 3, await stage.rows("two"), "rows")


@shard_case
async def a_fenced_slot_accepts_nobody_until_it_is_opened(stage: MoveStage) -> None:
    """The fence holds for every writer; slots of other groups go on."""
    await stage.change("one", "fence")
    holds(not await stage.pair.write("one", GROUP.slots[0], ROW), "a fenced slot accepts nobody")
    holds(await stage.pair.write("one", STAYS, ROW), "another slot accepts its writers")
    await stage.change("one", "unfence")
    holds(await stage.pair.write("one", GROUP.slots[0], {1: "again"}), "an opened slot accepts writers")


@shard_case
async def neither_an_incoming_nor_a_moved_slot_accepts_a_writer_without_a_table(stage: MoveStage) -> None:
    """Two shards never accept one slot at the same time."""
    slot = GROUP.slots[0]
    await stage.change("two", "prepare")
    holds(not await stage.pair.write("two", slot, ROW), "an incoming slot does not accept it")
    await stage.change("one", "fence")
    await stage.change("two", "announce", number=NUMBER)
    holds(not await stage.pair.write("two", slot, ROW), "an announced slot does not accept it")
    await stage.change("one", "settle-source")
    await stage.change("two", "settle-target")
    holds(not await stage.pair.write("one", slot, ROW), "a moved slot does not accept it")
    holds(await stage.pair.write("two", slot, ROW), "the new owner does")


@shard_case
async def a_slot_that_never_was_here_accepts_nobody(stage: MoveStage) -> None:
    """No row means that the shard does not own the slot."""
    holds(not await stage.pair.write("one", BACK.slots[0], ROW), "a shard refuses a slot of another shard")


@shard_case
async def sizes_tell_every_slot_that_has_rows(stage: MoveStage) -> None:
    """Rows are counted exactly, also in slots that the shard does not own."""
    same({}, dict(await (await stage.shard("one")).sizes()), "sizes of an empty shard")
    await stage.fill(1, 2)
    await stage.pair.plant("one", 12, {1: "a", 2: "b"})
    sizes = await (await stage.shard("one")).sizes()
    same({1: 40, 2: 40, 12: 2}, {slot: size.rows for slot, size in sizes.items()}, "rows")
    holds(all(size.bytes > 0 for size in sizes.values()), "every row has a size")


@shard_case
async def clean_deletes_rows_of_moved_slots_alone(stage: MoveStage) -> None:
    """The state of a slot decides at the moment of the delete: an owner keeps its rows."""
    await stage.fill(*GROUP.slots, STAYS)
    shard = await stage.shard("one")
    same(0, await shard.clean(GROUP, TOKEN), "rows that are deleted of an owner")
    await stage.change("one", "fence")
    same(0, await shard.clean(GROUP, TOKEN), "rows that are deleted behind a fence")
    await stage.change("one", "settle-source")
    same(3 * 40, await stage.clean(), "rows that are deleted")
    same({}, dict(await stage.pair.read("one", GROUP.slots[0])), "rows of a moved slot")
    same(40, len(await stage.pair.read("one", STAYS)), "rows of another slot")
    same(0, await shard.clean(GROUP, TOKEN), "rows that are left")
