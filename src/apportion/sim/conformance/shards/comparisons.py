"""Comparisons: rows that differ for another reason than a logged change are found, told, and copied again."""

from collections.abc import Mapping

from apportion.errors import Unequal
from apportion.shards.channel import Channel
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.shards.case import log_case, shard_case
from apportion.sim.conformance.shards.stage import GROUP, TOKEN, MoveStage, key_of

SLOT = GROUP.slots[1]
KEY = key_of(SLOT, 11)


@shard_case
async def equal_rows_are_verified_for_the_attempt_that_was_asked(stage: MoveStage) -> None:
    """A move that gives up its fence begins another attempt, which compares again."""
    await stage.fill(*GROUP.slots)
    channel = await stage.copied()
    holds(not (await channel.state(1)).is_verified, "nothing is verified before")
    await stage.verify(channel)
    same((True, False), ((await channel.state(1)).is_verified, (await channel.state(2)).is_verified), "verified")
    await stage.verify(channel, attempt=2)
    same((False, True), ((await channel.state(1)).is_verified, (await channel.state(2)).is_verified), "verified")


async def _found(stage: MoveStage, planted: Mapping[int, str | None], slot: int = SLOT) -> None:
    """Plant rows on the target; they are found, and mended from the source."""
    await stage.fill(*GROUP.slots)
    channel = await stage.copied()
    await stage.verify(channel)
    await stage.pair.plant("two", slot, planted)
    error = await raises(Unequal, stage.verify(channel, attempt=2), "a comparison of rows that differ")
    holds(str(next(iter(planted))) in str(error), f"the error names the row: {error}")
    holds(not (await channel.state(2)).is_verified, "rows that differ are not verified")
    await _mended(stage, channel)


async def _mended(stage: MoveStage, channel: Channel) -> None:
    await stage.drain(channel)
    await stage.equal()
    await stage.verify(channel, attempt=2)


@shard_case
async def a_changed_row_is_found(stage: MoveStage) -> None:
    """One other character is enough."""
    await _found(stage, {KEY: "text 1l"})


@shard_case
async def another_case_of_a_letter_is_found(stage: MoveStage) -> None:
    """A column may call `a` and `A` equal; the two rows differ all the same."""
    await _found(stage, {KEY: "TEXT 11"})


@shard_case
async def a_missing_row_is_found(stage: MoveStage) -> None:
    """The target lacks a row that the source has."""
    await _found(stage, {KEY: None})


@shard_case
async def an_extra_row_is_found(stage: MoveStage) -> None:
    """The target has a row that the source lacks."""
    await _found(stage, {KEY + 500: "extra"})


@shard_case
async def an_extra_row_behind_the_last_one_is_found(stage: MoveStage) -> None:
    """The comparison goes to the end of each slot on both sides."""
    await _found(stage, {10**9: "extra"}, slot=GROUP.slots[-1])


@log_case
async def a_logged_row_is_excused_until_it_is_applied(stage: MoveStage) -> None:
    """Writers that write during the comparison raise no alarm."""
    await stage.fill(*GROUP.slots)
    channel = await stage.copied()
    await stage.pair.write("one", SLOT, {KEY: "newer", KEY + 1: None, 7: "new"})
    await stage.verify(channel)
    holds(not (await channel.state(1)).is_drained, "the log still owes the rows")
    await stage.drain(channel)
    await stage.equal()
    holds((await channel.state(1)).is_verified, "applied rows are compared when they are applied")


@shard_case
async def a_row_that_differs_beside_logged_ones_is_found(stage: MoveStage) -> None:
    """The excuse is for the logged rows alone."""
    await stage.fill(*GROUP.slots)
    channel = await stage.copied()
    await stage.pair.plant("two", SLOT, {KEY: "wrong", KEY + 500: "extra", KEY + 1: None})
    await stage.pair.write("one", SLOT, {KEY + 2: "newer", 7: "new"})
    error = await raises(Unequal, stage.verify(channel), "a comparison of rows that differ")
    holds(all(str(each) in str(error) for each in (KEY, KEY + 500, KEY + 1)), f"the error names all three: {error}")
    holds(str(KEY + 2) not in str(error), f"the error does not name the logged row: {error}")
    await stage.drain(channel)
    await stage.verify(channel)
    await stage.equal()


@shard_case
async def a_writer_during_a_comparison_raises_no_alarm(stage: MoveStage) -> None:
    """Rows change between the pieces that are compared."""
    await stage.fill(*GROUP.slots)
    channel = await stage.copied()
    for turn in range(6):
        await stage.pair.write("one", SLOT, {KEY + turn: f"turn {turn}"})
        await channel.verify(1, TOKEN)
        await channel.apply(TOKEN)
    await stage.verify(channel)
    await stage.equal()
