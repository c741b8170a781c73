"""Admin of shards for programs, on any event loop: makes, changes and examines a set.

    from apportion.shards import admin

    await admin.init("sqlite:///control.db", "world", {"one": "sqlite:///one.db"}, base=Base)

Each call opens the control store on the I/O thread, and closes it at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy.orm import DeclarativeBase

from apportion.runtime.io_thread import io_thread
from apportion.shards import foundation
from apportion.shards.addition import added
from apportion.shards.admin.carrier import MoveObserved, carried
from apportion.shards.admin.channels import PairChannel
from apportion.shards.admin.departure import removed
from apportion.shards.admin.doctor import doctor as diagnosed
from apportion.shards.admin.ends import SOAK, abort, clean, pause, reverse
from apportion.shards.admin.failover import FailOver, accept_failover
from apportion.shards.admin.keys.isolation import isolate
from apportion.shards.admin.keys.key_order import check_ordered
from apportion.shards.admin.keys.merge import merge
from apportion.shards.admin.keys.pinned_keys import check_keys, pinned
from apportion.shards.admin.keys.split import split
from apportion.shards.admin.lanes import MovesMade
from apportion.shards.admin.migration.migrate import migrate
from apportion.shards.admin.migration.run import SetMigration
from apportion.shards.admin.moves import SKEW, TOLERANCE, apply, channels, drain, plan, rebalance
from apportion.shards.admin.reads.hot import HotSpots, hot_spots
from apportion.shards.admin.reads.query import MOST_ROWS, ShardRows, queried
from apportion.shards.admin.reads.verify import SetVerification, verified
from apportion.shards.admin.recover import Recovery, recovered
from apportion.shards.admin.repair import repaired
from apportion.shards.admin.retention.partitions import partitions
from apportion.shards.admin.retention.values import PartitionEvent, SetPartitions, ShardPartitions
from apportion.shards.admin.status import MoveStatus, SetStatus, ShardStatus, set_status
from apportion.shards.migration.record import ShardMigration
from apportion.shards.models import check_models
from apportion.shards.mover import MoveEvent
from apportion.shards.mover.own_slots import PinnedKey, RangeSlot
from apportion.shards.periods.records import TimePartition
from apportion.shards.records import records_of
from apportion.shards.slots import DEFAULT_SLOTS, ShardKey, SlotRule, slots_by
from apportion.shards.takeover.obstacles import Obstacle
from apportion.shards.takeover.revision import fill_slots, written_revision
from apportion.shards.takeover.survey import KeyRows, SetSurvey, TableSurvey
from apportion.shards.takeover.takeover import TakeoverProgress
from apportion.stores.administration import Finding

__all__ = [
    "MOST_ROWS",
    "SKEW",
    "SOAK",
    "TOLERANCE",
    "FailOver",
    "Finding",
    "HotSpots",
    "KeyRows",
    "MoveEvent",
    "MoveStatus",
    "MovesMade",
    "Obstacle",
    "PairChannel",
    "PartitionEvent",
    "PinnedKey",
    "RangeSlot",
    "Recovery",
    "SetMigration",
    "SetPartitions",
    "SetStatus",
    "SetSurvey",
    "SetVerification",
    "ShardMigration",
    "ShardPartitions",
    "ShardRows",
    "ShardStatus",
    "TableSurvey",
    "TakeoverProgress",
    "TimePartition",
    "abort",
    "accept_failover",
    "add",
    "apply",
    "channels",
    "clean",
    "doctor",
    "drain",
    "fill_slots",
    "hot",
    "init",
    "isolate",
    "merge",
    "migrate",
    "partitions",
    "pause",
    "pin",
    "plan",
    "query",
    "rebalance",
    "recover",
    "remove",
    "repair",
    "reverse",
    "split",
    "status",
    "survey",
    "verify",
    "written_revision",
]


async def init(
    url: str,
    name: str,
    shards: Mapping[str, str],
    *,
    base: type[DeclarativeBase],
    slots: int | None = None,
    by: SlotRule = "hash",
    progress: Callable[[TakeoverProgress], None] = foundation.untold,
    stride: bool = False,
    replication_urls: Mapping[str, str] | None = None,
) -> None:
    """Make a set of shards: tables and triggers in each database, records in the control store, then the table.

    One of the databases may have rows, and programs that write to them. Its tables get the column `slot`, and its rows
    get their slots in chunks. The shard of this database then owns all slots. The other databases begin empty.

    - `shards`: the URL of the database of each shard, by its id. Write `${NAME}` in place of a password.
    - `base`: the declarative base of the models. Tables that are absent are made.
    - `slots`: the number of hash slots, a power of two up to 8 192. It is fixed for the life of the set. Default: 4096.
    - `by`: "hash"; or "lists", for one slot and the slots that keys get by `pin` and `isolate`; or "ranges", for one
      slot that `split` divides, so that each slot has neighbouring keys. The shard keys are then text, or integers.
    - `progress`: a function that is called for each chunk of rows, in another thread.
    - `stride`: let the sequences of PostgreSQL count by 64, so that no two shards give out the same primary key.
    - `replication_urls`: the URL at which servers of other shards reach a shard, by its id. Default: its own URL.

    The same call again finishes a call that was cut off. `InvalidInput` for another set of this name, for rows that
    cannot get a slot, and for rows in two databases. `SchemaDiffers` for tables that differ from the models.
    """
    if by == "ranges":
        check_models(base)
        check_ordered(base)
    await io_thread().hop(
        foundation.found(
            url,
            name,
            records_of(shards, replication_urls),
            base,
            slots_by(by, slots),
            told=progress,
            is_strided=stride,
            is_ranged=by == "ranges",
        )
    )


async def survey(shards: Mapping[str, str], *, base: type[DeclarativeBase], slots: int = DEFAULT_SLOTS) -> SetSurvey:
    """Return the findings of `init`: rows, shard keys and their spread, and all obstacles to later moves.

    Nothing is written, and no file is made. Errors are those of `init`.
    """
    return await io_thread().hop(foundation.surveyed(records_of(shards), base, slots))


async def add(
    url: str,
    name: str,
    shards: Mapping[str, str],
    *,
    base: type[DeclarativeBase],
    stride: bool = False,
    replication_urls: Mapping[str, str] | None = None,
) -> None:
    """Make empty databases shards of an existing set. They own no slot, and have the weight 0.

    The rows of reference tables come from the first shard of the set. Rows that are there already must be equal.

    - `stride`: let the sequences of PostgreSQL count by 64 on all shards, as in `init`.
    - `replication_urls`: as in `init`. A shard that is there already gets this URL in place of its former one.

    The same call again finishes a call that was cut off. It also makes absent triggers and indexes of slots again.
    `SchemaDiffers` if the tables differ from those of the other shards. `Unequal` if rows of a reference table differ.
    `InvalidInput` for a database with rows of other tables.
    """
    records = {shard: replace(each, weight=0.0) for shard, each in records_of(shards, replication_urls).items()}
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


async def query(url: str, name: str, statement: str, *, max_rows: int = MOST_ROWS) -> tuple[ShardRows, ...]:
    """Run one statement of SQL that reads on each shard of a set. The rows of the shards stay apart.

    - `statement`: a SELECT. `{owned}` in it stands for the condition that leaves out rows of slots of other shards, and
      `{p.owned}` for that of the table `p`. It is required once a shard has given slots away.
    - `max_rows`: the most rows of a shard. Default: 10 000.

        for shard in await admin.query(url, "world", "select count(*) from place where {owned}"):
            print(shard.shard, shard.rows)

    `InvalidInput`: the statement does not read, has no `{owned}`, has too many rows, or a shard refuses it.
    """
    return await io_thread().hop(queried(url, name, statement, max_rows))


async def hot(url: str, name: str) -> HotSpots:
    """Return the keys, slots and shards with the most pinned sessions, and the next step for each hot spot.

    The samples are those that programs have kept in the control store in the last ten minutes. No shard is asked.
    """
    return await io_thread().hop(hot_spots(url, name))


async def repair(url: str, name: str) -> tuple[str, ...]:
    """Write a damaged list of moving slots anew, from the records of the moves. Return its damages, () if it had none.

    The next call that moves slots finishes a pin that was under way. `BadSnapshot` names a damaged record of a move,
    and its field. In this case nothing was written, and only a copy of the control store can mend that record.
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
