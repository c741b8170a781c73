"""Admin of shards as programs use it, on any event loop: the founding of a set, and questions about it.

    from apportion.shards import admin

    await admin.init("sqlite:///control.db", "world", {"one": "sqlite:///one.db"}, base=Base)

Each call opens the control store on the I/O thread, and closes it at the end.
"""

from collections.abc import Mapping

from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.shards import foundation
from apportion.shards.admin.status import SetStatus, ShardStatus, set_status
from apportion.shards.records import ShardRecord
from apportion.shards.slots import DEFAULT_SLOTS

__all__ = ["SetStatus", "ShardStatus", "init", "status"]


async def init(
    url: str, name: str, shards: Mapping[str, str], *, base: type[DeclarativeBase], slots: int = DEFAULT_SLOTS
) -> None:
    """Make a set of shards: tables and triggers in each database, records in the control store, then its table.

    - `shards`: the URL of the database of each shard, by its id. Write `${NAME}` in place of a password.
    - `base`: the declarative base of the models. Tables that are absent are made.
    - `slots`: the number of hash slots, a power of two up to 8 192. It is fixed for the life of the set. Default: 4096.

    A call that was cut off is finished by the same call again. `InvalidInput` for another set of this name.
    """
    if not isinstance(shards, Mapping):
        hint = 'Write {"one": "sqlite:///one.db"}.'
        raise InvalidInput("shards", shards, "a mapping of ids to URLs", hint)
    records = {shard: ShardRecord(url=address) for shard, address in shards.items()}
    await io_thread().hop(foundation.found(url, name, records, base, slots))


async def status(url: str, name: str) -> SetStatus:
    """Return the shards of a set, with their slots, as the newest table has them."""
    return await io_thread().hop(set_status(url, name))
