"""Admin of shards for programs, on any event loop: makes, changes and examines a set.

    from apportion.shards import admin

    await admin.init("sqlite:///control.db", "world", {"one": "sqlite:///one.db"}, base=Base)

Each call opens the control store on the I/O thread, and closes it at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.shards import foundation
from apportion.shards.addition import added
from apportion.shards.admin.carrier import Carrier, MoveObserved, MovesMade, carried
from apportion.shards.admin.channels import PairChannel, plan_channels
from apportion.shards.admin.departure import check_drain, check_drained, removed
from apportion.shards.admin.doctor import doctor as diagnosed
from apportion.shards.admin.ends import SOAK, abort, clean, pause, reverse
from apportion.shards.admin.failover import FailOver, accept_failover
from apportion.shards.admin.pinned_keys import check_keys, pinned
from apportion.shards.admin.planner import channel_of, check_skew, from_facts, measure_of, plan_even, plan_skewed
from apportion.shards.admin.recover import Recovery, recovered
from apportion.shards.admin.repair import repaired
from apportion.shards.admin.status import MoveStatus, SetStatus, ShardStatus, set_status
from apportion.shards.admin.verify import SetVerification, verified
from apportion.shards.channel import ChannelKind
from apportion.shards.mover import MoveEvent
from apportion.shards.mover.own_slots import PinnedKey
from apportion.shards.plan import Measure, SetFacts, ShardPlan, plan_slots
from apportion.shards.records import records_of
from apportion.shards.slots import DEFAULT_SLOTS, ShardKey
from apportion.shards.takeover.obstacles import Obstacle
from apportion.shards.takeover.revision import fill_slots, written_revision
from apportion.shards.takeover.survey import KeyRows, SetSurvey, TableSurvey
from apportion.shards.takeover.takeover import TakeoverProgress
from apportion.stores.administration import Finding

__all__ = [
    "SOAK",
    "FailOver",
    "Finding",
    "KeyRows",
    "MoveEvent",
    "MoveStatus",
    "MovesMade",
    "Obstacle",
    "PairChannel",
    "PinnedKey",
    "Recovery",
    "SetStatus",
    "SetSurvey",
    "SetVerification",
    "ShardStatus",
    "TableSurvey",
    "TakeoverProgress",
    "abort",
    "accept_failover",
    "add",
    "apply",
    "channels",
    "clean",
    "doctor",
    "drain",
    "fill_slots",
    "init",
    "pause",
    "pin",
    "plan",
    "recover",
    "remove",
    "repair",
    "reverse",
    "status",
    "survey",
    "verify",
    "written_revision",
]

TOLERANCE = 0.1
"""The largest difference between the rows or bytes of a shard and its share, as a part of the share."""

SKEW = 0.15
"""The coefficient of variation of the shards above which `rebalance` moves slots."""


async def init(
    url: str,
    name: str,
    shards: Mapping[str, str],
    *,
    base: type[DeclarativeBase],
    slots: int = DEFAULT_SLOTS,
    progress: Callable[[TakeoverProgress], None] = foundation.untold,
    stride: bool = False,
) -> None:
    """Make a set of shards: tables and triggers in each database, records in the control store, then the table.

    One of the databases may have rows, and programs that write to them. Its tables get the column `slot`, and its rows
    get their slots in chunks. The shard of this database then owns all slots. The other databases begin empty.

    - `shards`: the URL of the database of each shard, by its id. Write `${NAME}` in place of a password.
    - `base`: the declarative base of the models. Tables that are absent are made.
    - `slots`: the number of hash slots, a power of two up to 8 192. It is fixed for the life of the set. Default: 4096.
    - `progress`: a function that is called for each chunk of rows, in another thread.
    - `stride`: let the sequences of PostgreSQL count by 64, so that no two shards give out the same primary key.

    The same call again finishes a call that was cut off. `InvalidInput` for another set of this name, for rows that
    cannot get a slot, and for rows in two databases. `SchemaDiffers` for tables that differ from the models.
    """
    await io_thread().hop(
        foundation.found(url, name, records_of(shards), base, slots, told=progress, is_strided=stride)
    )


async def survey(shards: Mapping[str, str], *, base: type[DeclarativeBase], slots: int = DEFAULT_SLOTS) -> SetSurvey:
    """Return the findings of `init`: rows, shard keys and their spread, and all obstacles to later moves.

    Nothing is written, and no file is made. Errors are those of `init`.
    """
    return await io_thread().hop(foundation.surveyed(records_of(shards), base, slots))


async def add(
    url: str, name: str, shards: Mapping[str, str], *, base: type[DeclarativeBase], stride: bool = False
) -> None:
    """Make empty databases shards of an existing set. They own no slot, and have the weight 0.

    The rows of reference tables come from the first shard of the set. Rows that are there already must be equal.

    - `stride`: let the sequences of PostgreSQL count by 64 on all shards, as in `init`.

    The same call again finishes a call that was cut off. It also makes absent triggers again. `SchemaDiffers` if the
    tables differ from those of the other shards. `Unequal` if rows of a reference table differ. `InvalidInput` for a
    database with rows of other tables.
    """
    records = {shard: replace(each, weight=0.0) for shard, each in records_of(shards).items()}
    await io_thread().hop(added(url, name, records, base, is_strided=stride))


async def doctor(
    url: str, name: str, *, base: type[DeclarativeBase] | None = None, is_whole: bool = False, seed: int = 0
) -> tuple[Finding, ...]:
    """Compare the records and the table of a set with its databases, and return the findings. Nothing is written.

    - `base`: the declarative base of the models. Without it, tables, triggers and rows are not examined.
    - `is_whole`: compare every row with its slot, in place of the rows of 64 slots that `seed` picks.
    """
    return await io_thread().hop(diagnosed(url, name, base=base, is_whole=is_whole, seed=seed))


async def pin(url: str, name: str, keys: Sequence[ShardKey], *, base: type[DeclarativeBase]) -> tuple[PinnedKey, ...]:
    """Give keys without rows slots of their own, so that each can lie alone on a shard. Return the keys and slots.

    A key stays on the shard of its hash slot until a plan moves its own slot. A set of 4 096 slots can have 12 288
    pinned keys. Nothing changes for a key that is pinned already.

    The same call again finishes a call that was cut off. While another process moves slots of the set, this call waits.
    `InvalidInput` for a key that has rows, that is too long for the table, or that cannot be routed. `Conflict` if the
    hash slot of a key is moving, or if another process changed the table. After an error, the keys before the refused
    one are pinned.
    """
    checked = check_keys(keys, base)
    return await carried(url, name, lambda carrier: pinned(carrier, checked, base))


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
    """Return the plan of a change: the slots, rows and bytes that move, and the least possible number of slots.

    Nothing is changed.

    - `weights`: the new weights of some shards. Weight 0 drains a shard.
    - `by`: the amount of which each shard gets its share: "slots", "rows" or "bytes".
    - `tolerance`: the part of a share by which rows or bytes may differ from it.
    - `slots`, `to`: slots that go to one shard, in place of weights.

    `PlanRefused` if a move under way has one of the slots. `NoNodes` if no shard may own slots.
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
    case. The other arguments and the errors are those of `plan` and `apply`.
    """
    measure = measure_of(by, tolerance)
    check_skew(if_skewed)
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
    is_reversible: bool = False,
    bytes_per_second: float | None = None,
    observer: MoveObserved | None = None,
) -> MovesMade:
    """Finish the moves that have begun, then carry out a plan, while programs write. Old rows stay on the source.

    - `plan`: the plan. Without it, only moves that have begun are finished.
    - `channel`: "keys" for a log of keys, or "native" for replication of PostgreSQL. "auto" prefers "native".
    - `is_reversible`: let targets log the keys of changed rows until `clean`, so that `reverse` can undo a switch.
    - `bytes_per_second`: the most bytes of rows to copy per second. It delays no logged change. Only for "keys".
    - `observer`: a function that is called with each `MoveEvent`, in the I/O thread.

    The same call again finishes a call that was cut off. While another process moves slots of the set, this call waits.
    `PlanRefused` if a slot of the plan now lies on another shard. `InvalidInput` for an impossible channel.
    """
    kind = channel_of(channel, bytes_per_second)
    work = partial(Carrier.apply, plan=plan, is_reversible=is_reversible, bytes_per_second=bytes_per_second)
    return await carried(url, name, work, observer, channel=kind)


async def remove(url: str, name: str, shard: str, *, force: bool = False) -> None:
    """Take a shard without slots and rows out of its set, and drop all that the set added to its database.

    The tables of the application stay. The id may be added again later.

    - `force`: say that a database without an answer is gone for good. A database that answers is checked in any case.

    The same call again finishes a call that was cut off. `InvalidInput` names the slots, moves or rows that the shard
    still has. `StoreUnavailable` for a silent database without `force`.
    """
    await carried(url, name, lambda carrier: removed(carrier, shard, is_gone=force))


async def verify(url: str, name: str, *, base: type[DeclarativeBase]) -> SetVerification:
    """Compare every row of a set with its slot, the owners of the slots with each other, and rows of reference tables.

    O(rows).

    `InvalidInput` if three readings in a row found a slot without an owner, or with two.
    """
    return await io_thread().hop(verified(url, name, base))


async def repair(url: str, name: str) -> tuple[str, ...]:
    """Write a damaged list of moving slots anew, from the records of the moves. Return its damages, () if it had none.

    The next call that moves slots finishes a pin that was under way. `BadSnapshot` names a damaged record of a move,
    and its field. Only a copy of the control store can mend that record. Then nothing was written.
    """
    return await io_thread().hop(repaired(url, name))


async def recover(url: str, name: str, *, is_check: bool = False, observer: MoveObserved | None = None) -> Recovery:
    """Bring a control store that was restored from an old copy up to the state of its shards, while programs write.

    First tell the store of its restore: `apportion store restored URL`. The shards know the owner of each slot. The
    table is published as they show it, and each move that left something on a shard is ended. A move that has not
    switched is taken back.

    - `is_check`: only read, and return what would change.
    - `observer`: a function that is called with each `MoveEvent`, in the I/O thread.

    Every shard must answer. If nobody can tell the owner of a slot, nothing is written, and `doubts` names the slot.
    `StoreWentBack` if nobody has told the store of its restore. `Conflict` if a slot got another owner meanwhile.
    """
    return await carried(url, name, lambda carrier: recovered(carrier, is_check=is_check), observer, settles=False)


async def status(url: str, name: str, *, has_rows: bool = False, has_progress: bool = False) -> SetStatus:
    """Return the shards of a set with their slots in the newest table, and the moves that are not over.

    - `has_rows`: ask each shard for its number of rows, and for all that its moves have left there. O(rows).
    - `has_progress`: ask the shards of each move for its copied rows, and for the changes that the target lacks.
    """
    return await io_thread().hop(set_status(url, name, has_rows=has_rows, has_progress=has_progress))
