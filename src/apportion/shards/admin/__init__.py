"""Admin of shards as programs use it, on any event loop: the founding of a set, and questions about it.

    from apportion.shards import admin

    await admin.init("sqlite:///control.db", "world", {"one": "sqlite:///one.db"}, base=Base)

Each call opens the control store on the I/O thread, and closes it at the end.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.shards import foundation
from apportion.shards.addition import added
from apportion.shards.admin.doctor import doctor as diagnosed
from apportion.shards.admin.status import SetStatus, ShardStatus, set_status
from apportion.shards.records import ShardRecord
from apportion.shards.slots import DEFAULT_SLOTS
from apportion.shards.takeover.obstacles import Obstacle
from apportion.shards.takeover.revision import fill_slots, written_revision
from apportion.shards.takeover.survey import KeyRows, SetSurvey, TableSurvey
from apportion.shards.takeover.takeover import TakeoverProgress
from apportion.stores.administration import Finding

__all__ = [
    "Finding",
    "KeyRows",
    "Obstacle",
    "SetStatus",
    "SetSurvey",
    "ShardStatus",
    "TableSurvey",
    "TakeoverProgress",
    "add",
    "doctor",
    "fill_slots",
    "init",
    "status",
    "survey",
    "written_revision",
]


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
    """Make a set of shards: tables and triggers in each database, records in the control store, then its table.

    One of the databases may have rows, and programs that write to them. Its tables get the column `slot`; each row gets
    its slot, in chunks; the shard owns all slots. The other databases begin empty.

    - `shards`: the URL of the database of each shard, by its id. Write `${NAME}` in place of a password.
    - `base`: the declarative base of the models. Tables that are absent are made.
    - `slots`: the number of hash slots, a power of two up to 8 192. It is fixed for the life of the set. Default: 4096.
    - `progress`: is called for each chunk of rows, in another thread.
    - `stride`: let the sequences of PostgreSQL count by 64, so that no two shards give out the same primary key.

    A call that was cut off is finished by the same call again. `InvalidInput` for another set of this name, for rows
    that no slot fits, and for rows in two databases; `SchemaDiffers` for tables that differ from the models.
    """
    await io_thread().hop(foundation.found(url, name, _records(shards), base, slots, told=progress, is_strided=stride))


async def survey(shards: Mapping[str, str], *, base: type[DeclarativeBase], slots: int = DEFAULT_SLOTS) -> SetSurvey:
    """Return the findings of `init`: rows, shard keys and their spread, and all that will refuse to move.

    Nothing is written, and no file is made. Errors are those of `init`.
    """
    return await io_thread().hop(foundation.surveyed(_records(shards), base, slots))


def _records(shards: Mapping[str, str]) -> dict[str, ShardRecord]:
    if not isinstance(shards, Mapping):
        hint = 'Write {"one": "sqlite:///one.db"}.'
        raise InvalidInput("shards", shards, "a mapping of ids to URLs", hint)
    return {shard: ShardRecord(url=address) for shard, address in shards.items()}


async def add(
    url: str, name: str, shards: Mapping[str, str], *, base: type[DeclarativeBase], stride: bool = False
) -> None:
    """Make empty databases shards of a set that is there. They own no slot, and have the weight 0.

    - `stride`: let the sequences of PostgreSQL count by 64 on all shards, as in `init`.

    A call that was cut off is finished by the same call again; it also makes triggers again that are absent.
    `SchemaDiffers` if the tables differ from those of the other shards; `InvalidInput` for a database with rows.
    """
    records = {shard: replace(each, weight=0.0) for shard, each in _records(shards).items()}
    await io_thread().hop(added(url, name, records, base, is_strided=stride))


async def doctor(
    url: str, name: str, *, base: type[DeclarativeBase] | None = None, is_whole: bool = False, seed: int = 0
) -> tuple[Finding, ...]:
    """Compare the records and the table of a set with its databases, and return the findings. Nothing is written.

    - `base`: the declarative base of the models. Without it, tables, triggers and rows are not looked at.
    - `is_whole`: compare each row with its slot, and not the rows of 64 slots that `seed` picks.
    """
    return await io_thread().hop(diagnosed(url, name, base=base, is_whole=is_whole, seed=seed))


async def status(url: str, name: str) -> SetStatus:
    """Return the shards of a set, with their slots, as the newest table has them."""
    return await io_thread().hop(set_status(url, name))
