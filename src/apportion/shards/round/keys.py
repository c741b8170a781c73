"""Keys of a round: the distinct shard keys of a model, in pages of some slots.

A page is read in a transaction of its own, which ends before its keys are used. So a program may write while it goes
through the keys.

Promises: each key comes once, also if its slot moves meanwhile, and also where a collation calls two keys equal.
Refuses: models without a shard key of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Enum, Row, String, select
from sqlalchemy.orm import DeclarativeBase, Session, class_mapper
from sqlalchemy.types import TypeDecorator, TypeEngine

from apportion.errors import InvalidInput
from apportion.shards.models import Sharded, rule_of
from apportion.shards.round.turn import RoundTurn
from apportion.shards.slots import ShardKey

PAGE_SLOTS = 64
"""The slots of a page. The keys of a page are in memory at once."""

_EXACT = {"sqlite": "BINARY", "postgresql": "C"}


def check_key_model(model: type, base: type[DeclarativeBase]) -> None:
    """Refuse a class that is no model of the base with a shard key."""
    models = {mapper.class_ for mapper in base.registry.mappers if issubclass(mapper.class_, Sharded)}
    if model not in models or not rule_of(model).key:
        named = ", ".join(sorted(each.__name__ for each in models if rule_of(each).key))
        found = model.__name__ if isinstance(model, type) else model
        raise InvalidInput("model", found, f"a model with a shard key: {named}", "Name one of them.")


def page_of(turns: Iterator[RoundTurn], model: type) -> Sequence[Row[Any]] | None:
    """Return the rows with the keys of the next turn, and end its transaction. None after the last turn.

    O(rows of the turn).
    """
    turn = next(turns, None)
    if turn is None:
        return None
    with Session(bind=turn.connection) as session:
        columns = [_exact(each, turn.connection.dialect.name) for each in _columns(model)]
        slot: Any = model.slot  # type: ignore[attr-defined] # of Sharded
        rows = session.execute(select(slot, *columns).where(slot.in_(turn.slots)).distinct()).all()
    turn.read.end()
    return rows


def key_in(row: Row[Any]) -> ShardKey:
    """Return the key in a row: after the slot, one value or several."""
    values: tuple[Any, ...] = tuple(row)[1:]
    found: ShardKey = values if len(values) > 1 else values[0]
    return found


def _columns(model: type) -> list[Any]:
    return [class_mapper(model).get_property(name).class_attribute for name in rule_of(model).key]


def _exact(column: Any, dialect: str) -> Any:  # noqa: ANN401 - an attribute of a model
    """Return a column that is equal for equal text alone."""
    own: TypeEngine[Any] = column.type
    kind = own.impl_instance if isinstance(own, TypeDecorator) else own
    is_text = isinstance(kind, String) and not isinstance(kind, Enum)
    return column.collate(_EXACT[dialect]) if is_text else column
