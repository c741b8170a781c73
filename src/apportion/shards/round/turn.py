"""Round turn: the slots of one shard in a round, and the transaction that reads them."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import Connection

from apportion.errors import InvalidInput
from apportion.shards.models import Sharded
from apportion.shards.pin import Roads
from apportion.shards.pins.reach import SlotOption
from apportion.shards.pins.slot_criterion import SlotCriterion
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.reads import ShardRead

_NO_SLOT = -1


@dataclass(frozen=True, kw_only=True)
class RoundTurn:
    """A turn of a shard. Its transaction has begun."""

    read: ShardRead
    roads: Roads
    slots: tuple[int, ...]
    tables: SetTables

    @property
    def shard(self) -> str:
        """The id of the shard."""
        return self.read.shard

    @property
    def connection(self) -> Connection:
        """The connection of the transaction. `InvalidInput` after its end, `StoreClosed` after that of the router."""
        self.roads.engine(self.shard)
        connection = self.read.connection
        if not connection.in_transaction():
            hint = (
                "Use the session within its turn, and roll nothing back: router.each reads a shard in one transaction."
            )
            raise InvalidInput(f"session of shard {self.shard}", "one after its transaction", "an open one", hint)
        return connection

    @cached_property
    def option(self) -> Any:  # noqa: ANN401 - an option of a statement
        """The option that leaves out rows of other slots. Without such rows, one with the same refusals."""
        return _without(self.read.left_out(tuple(self.tables.sharded), self.slots) or (_NO_SLOT,))


@lru_cache(maxsize=256)
def _without(slots: tuple[int, ...]) -> Any:  # noqa: ANN401 - an option of a statement
    return SlotOption(Sharded, lambda model: SlotCriterion(model.slot.not_in(slots)), include_aliases=True)
