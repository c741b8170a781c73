"""Moves: plans changes of a set, and carries plans out, while programs write."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.shards.admin.apply_options import channel_wish, move_limits, moves_at_once
from apportion.shards.admin.carrier import Carrier, MoveObserved, carried
from apportion.shards.admin.channels import PairChannel, plan_channels
from apportion.shards.admin.departure import check_drain, check_drained
from apportion.shards.admin.lanes import MovesMade
from apportion.shards.admin.planner import check_skew, from_facts, measure_of, paused_moves, plan_even, plan_skewed
from apportion.shards.channel import ChannelKind
from apportion.shards.mover.limits import LIMITS
from apportion.shards.plan import Measure, SetFacts, ShardPlan, plan_slots

TOLERANCE = 0.1
"""The largest difference between the rows or bytes of a shard and its share, as a part of the share."""

SKEW = 0.15
"""The coefficient of variation of the shards above which `rebalance` moves slots."""


async def plan(
    url: str,
    name: str,
    *,
    weights: Mapping[str, float] | None = None,
    by: Measure = "slots",
    tolerance: float = TOLERANCE,
    slots: Sequence[int] = (),
    to: str | None = None,
) -> ShardPlan:
    """Return the plan of a change: the slots, rows and bytes that move, and the least that any plan must move.

    Nothing is changed.

    - `weights`: the new weights of some shards. Weight 0 drains a shard.
    - `by`: the unit in which each shard gets its share: "slots", "rows" or "bytes".
    - `tolerance`: the part of a share by which rows or bytes may differ from it.
    - `slots`, `to`: slots that go to one shard, in place of weights.

    `PlanRefused` if a move under way has one of the slots. `NoNodes` if no shard may own slots. `SchemaDiffers` if
    shards have different revisions of Alembic. `Conflict` if a migration has not ended.
    """
    if bool(slots) != (to is not None) or (slots and (weights or by != "slots")):
        hint = 'Write weights={"two": 1}, or slots=range(256), to="two".'
        raise InvalidInput("slots", slots, "either weights, or slots and a shard", hint)
    measure = measure_of(by, tolerance)

    def _made(facts: SetFacts) -> ShardPlan:
        return plan_even(facts, weights or {}, measure, tolerance) if to is None else plan_slots(facts, slots, to)

    return await io_thread().hop(from_facts(url, name, _made))


async def channels(url: str, name: str, plan: ShardPlan) -> tuple[PairChannel, ...]:
    """Return the channel that `apply` with "auto" takes for each pair of shards of a plan, and why.

    Return () for files of SQLite, which have one channel.
    """
    return await io_thread().hop(plan_channels(url, name, plan))


async def rebalance(
    url: str,
    name: str,
    *,
    by: Measure = "bytes",
    tolerance: float = TOLERANCE,
    if_skewed: float = SKEW,
    observer: MoveObserved | None = None,
) -> MovesMade:
    """If the shards are uneven, make a plan that gives each shard its share, and carry the plan out.

    Programs may call it at regular times. The shards are uneven if the coefficient of variation (CV) of their amounts,
    each divided by its share, is above `if_skewed`. Moves that another call has begun are brought to their ends in any
    case. Nothing is done while a move rests since a `pause`: only `apply` goes on with it. The other arguments and the
    errors are those of `plan` and `apply`.
    """
    measure = measure_of(by, tolerance)
    check_skew(if_skewed)
    if paused := await io_thread().hop(paused_moves(url, name)):
        why = f"since a pause, these moves rest: {', '.join(paused)}. Go on: apportion shards apply URL {name}"
        return MovesMade(moves=(), is_whole=False, why=why)
    made = await apply(url, name, observer=observer)
    if not made.is_whole:
        return made
    found = await io_thread().hop(
        from_facts(url, name, lambda facts: plan_skewed(facts, measure, tolerance, if_skewed))
    )
    if found is None or not found.groups:
        return made
    done = await apply(url, name, found, observer=observer)
    return replace(done, moves=(*made.moves, *done.moves))


async def drain(
    url: str,
    name: str,
    shard: str,
    *,
    by: Measure = "slots",
    tolerance: float = TOLERANCE,
    observer: MoveObserved | None = None,
) -> MovesMade:
    """Give all slots of a shard to the other shards, while programs write. The shard then has the weight 0.

    Slots of pinned keys move too. Moves that another call has begun are finished first. Old rows stay on the shard
    until `clean`. A plan with a weight for the shard gives it slots again.

    The same call again finishes a call that was cut off. `InvalidInput` for the last shard with a weight. `Conflict` if
    the shard got a slot meanwhile. The other arguments and errors are those of `plan` and `apply`.
    """
    measure = measure_of(by, tolerance)
    await io_thread().hop(check_drain(url, name, shard))
    made = await apply(url, name, observer=observer)
    if not made.is_whole:
        return made
    found = await plan(url, name, weights={shard: 0.0}, by=measure, tolerance=tolerance)
    done = await apply(url, name, found, observer=observer)
    if done.is_whole:
        await io_thread().hop(check_drained(url, name, shard))
    return replace(done, moves=(*made.moves, *done.moves))


async def apply(
    url: str,
    name: str,
    plan: ShardPlan | None = None,
    *,
    channel: ChannelKind = "keys",
    allows_unbounded_wal: bool = False,
    most_wal_bytes: float = LIMITS.wal_bytes,
    attempts: int = LIMITS.attempts,
    is_reversible: bool = False,
    bytes_per_second: float | None = None,
    parallel: int = 1,
    observer: MoveObserved | None = None,
) -> MovesMade:
    """Finish the moves that have begun, then carry out a plan, while programs write. Old rows stay on the source.

    - `plan`: the plan. Without it, only moves that have begun are finished.
    - `channel`: "keys" for a log of keys, or "native" for replication of PostgreSQL. "auto" prefers "native".
    - `allows_unbounded_wal`: replicate also from a server without `max_slot_wal_keep_size`.
    - `most_wal_bytes`: the most WAL that a source may keep for a move by replication. Above it, the move is aborted.
    - `attempts`: the attempts to switch each move. After them the move rests, and the same call again goes on.
    - `is_reversible`: let targets log the keys of changed rows until `clean`, so that `reverse` can undo a switch.
    - `bytes_per_second`: the most bytes of rows to copy per second, all moves together. It delays no logged change.
      Only for "keys".
    - `parallel`: the number of groups that move at once. Between files of SQLite, only groups of different targets do.
    - `observer`: a function that is called with each `MoveEvent`, in the I/O thread.

    The same call again finishes a call that was cut off. While another process moves slots of the set, this call waits.
    After a move that a limit has ended, no other begins, and `why` of the result is the reason. `StaleEpoch` if the
    table has changed since the plan was made, by anything but the plan itself and pins. `PlanRefused` for a plan with a
    move that was reversed, or with a slot of another move. `InvalidInput` for an impossible channel.
    """
    wish = channel_wish(
        channel,
        allows_unbounded_wal=allows_unbounded_wal,
        bytes_per_second=bytes_per_second,
        at_once=moves_at_once(parallel, plan),
    )
    limits = move_limits(most_wal_bytes=most_wal_bytes, attempts=attempts)
    work = partial(
        Carrier.apply, plan=plan, is_reversible=is_reversible, bytes_per_second=bytes_per_second, parallel=parallel
    )
    return await carried(url, name, work, observer, channel=wish, limits=limits)
