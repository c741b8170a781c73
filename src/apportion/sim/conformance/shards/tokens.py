"""Tokens: from the moment a newer mover is seen on a shard, an older one writes nothing there for that move."""

from collections.abc import Awaitable, Callable

from apportion.errors import Fenced
from apportion.model.epoch import FencingToken
from apportion.shards.channel import Channel
from apportion.shards.move_group import ROW_CHANGES
from apportion.shards.shard import Shard
from apportion.sim.conformance.expect import raises, same
from apportion.sim.conformance.shards.case import log_case, shard_case
from apportion.sim.conformance.shards.stage import GROUP, OLD, OTHER, TOKEN, MoveStage, token_of


def _acts(shard: Shard) -> dict[str, Callable[[FencingToken], Awaitable[object]]]:
    return {
        "guard": lambda token: shard.guard(GROUP, token),
        "change": lambda token: shard.change(GROUP, ROW_CHANGES["fence"], token),
        "prepare": lambda token: shard.change(GROUP, ROW_CHANGES["prepare"], token),
        "clean": lambda token: shard.clean(GROUP, token),
        "drop": lambda token: shard.drop(GROUP, token),
    }


def _channel_acts(channel: Channel) -> dict[str, Callable[[FencingToken], Awaitable[object]]]:
    return {
        "capture": channel.capture,
        "copy": channel.copy,
        "apply": channel.apply,
        "verify": lambda token: channel.verify(1, token),
        "uncapture": channel.uncapture,
    }


@shard_case
async def an_older_token_changes_nothing_on_a_shard(stage: MoveStage) -> None:
    """Every act that writes shows its token first."""
    await stage.fill(*GROUP.slots)
    await stage.change("one", "fence")
    await stage.change("one", "settle-source")
    await stage.change("two", "prepare")
    await stage.pair.plant("two", GROUP.slots[0], {1: "copied"})
    for shard_id in ("one", "two"):
        for name, act in _acts(await stage.shard(shard_id)).items():
            await raises(Fenced, act(OLD), f"{name} on shard {shard_id} under an older token")
    same(({"moved"}, {"incoming"}), (await stage.states("one"), await stage.states("two")), "states")
    same((40, 1), tuple([len(await stage.pair.read(each, GROUP.slots[0])) for each in ("one", "two")]), "rows")


@shard_case
async def an_older_token_changes_nothing_through_a_channel(stage: MoveStage) -> None:
    """An act of an older mover is refused, however late it comes: it copies, applies and verifies nothing."""
    await stage.fill(*GROUP.slots)
    channel = await stage.prepared()
    for name in ("capture", "copy", "uncapture"):
        await raises(Fenced, _channel_acts(channel)[name](OLD), f"{name} under an older token")
    same({}, dict(await stage.pair.read("two", GROUP.slots[0])), "rows of the target")
    await stage.finish_copy(channel)
    await stage.pair.write("one", GROUP.slots[0], {1: "written"})
    for name in ("apply", "verify", "uncapture"):
        await raises(Fenced, _channel_acts(channel)[name](OLD), f"{name} under an older token")
    state = await channel.state(1)
    same((True, False), (state.is_captured, state.is_verified), "state of the channel")


@log_case
async def an_older_token_applies_no_entry(stage: MoveStage) -> None:
    """The log keeps the entry for the newer mover."""
    channel = await stage.copied()
    await stage.pair.write("one", GROUP.slots[0], {1: "written"})
    await raises(Fenced, channel.apply(OLD), "apply under an older token")
    same((1, {}), ((await channel.state(1)).lag, dict(await stage.pair.read("two", GROUP.slots[0]))), "lag and rows")


@shard_case
async def an_equal_token_of_another_holder_is_refused(stage: MoveStage) -> None:
    """No store gives one token to two holders, so the second holder is refused."""
    shard = await stage.shard("one")
    await shard.guard(GROUP, TOKEN)
    await raises(Fenced, shard.guard(GROUP, token_of(TOKEN.epoch, "thief")), "the token of another holder")
    await shard.guard(GROUP, TOKEN)


@shard_case
async def the_token_of_one_move_does_not_hinder_another_move(stage: MoveStage) -> None:
    """Groups go on beside each other: each move has a resource of its own."""
    shard = await stage.shard("one")
    await shard.guard(GROUP, TOKEN)
    await shard.guard(OTHER, OLD)
    await raises(Fenced, shard.guard(GROUP, OLD), "an older token of the first move")


@shard_case
async def the_token_of_a_dropped_move_is_still_known(stage: MoveStage) -> None:
    """A mover that sleeps through the end of its move brings nothing back."""
    await stage.change("two", "prepare")
    await (await stage.shard("two")).drop(GROUP, TOKEN)
    shard = await stage.shard("two")
    await raises(Fenced, shard.change(GROUP, ROW_CHANGES["prepare"], OLD), "an older token after the drop")
    same({None}, await stage.states("two"), "states")
