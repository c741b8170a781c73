"""Case: one promise of a shard or a channel, as a function that fails when the promise is broken."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from apportion.sim.conformance.shards.stage import MoveStage


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCase:
    """A case: the sentence that is its name, its promise, and the function that runs it.

    `needs_log`: only a channel that copies in chunks and logs keys can keep the promise.
    """

    name: str
    promise: str
    run: Callable[[MoveStage], Awaitable[None]]
    needs_log: bool = False


def shard_case(run: Callable[[MoveStage], Awaitable[None]]) -> ShardCase:
    """Make a case of a function: its name is the sentence, its docstring the promise."""
    return ShardCase(name=str(run.__name__).replace("_", " "), promise=str(run.__doc__), run=run)


def log_case(run: Callable[[MoveStage], Awaitable[None]]) -> ShardCase:
    """Make a case that only a channel with a log of keys can keep."""
    return replace(shard_case(run), needs_log=True)
