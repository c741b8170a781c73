"""Numbers: primary keys that the databases of a set give out. No two databases may give out the same key.

On PostgreSQL the sequences of all shards can have a stride, so that their numbers differ. Without a stride, no set of
two or more shards is made for models with such keys.
"""

from collections.abc import Mapping
from contextlib import ExitStack

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.shards.dialects import address_of
from apportion.shards.forms import sync_form
from apportion.shards.models import tables_of
from apportion.shards.postgres.stride import stride_shards
from apportion.shards.records import ShardRecord
from apportion.shards.takeover.obstacles import check_numbers


def check_given(shards: Mapping[str, ShardRecord], base: type[DeclarativeBase], *, is_strided: bool) -> None:
    """Refuse models with keys that two shards would both give out.

    Refuse a stride on a database other than PostgreSQL.
    """
    if not is_strided:
        check_numbers(base)
        return
    for shard, record in shards.items():
        if not record.url.startswith("postgresql"):
            hint = "Use UUIDs, or numbers of your own with autoincrement=False."
            raise InvalidInput(f"stride on shard {shard}", record.url, "a database of PostgreSQL", hint)


def give_stride(shards: Mapping[str, ShardRecord], base: type[DeclarativeBase]) -> None:
    """Give the sequences of the sharded tables their stride on all shards of a set."""
    with ExitStack() as stack:
        engines = {
            shard: create_engine(address_of(each.address(), sync_form.drivers)) for shard, each in shards.items()
        }
        for engine in engines.values():
            stack.callback(engine.dispose)
        stride_shards(engines, tables_of(base))
