"""Pinned sessions: sessions of SQLAlchemy that fence each transaction and use the rows of their slots alone.

The session connects at its first statement. A flush sets the slot of each new row, and refuses rows of other slots. ORM
statements get a criterion over the column `slot`. It is made once and used again.

Promises: after a move of its slot, a session that has read nothing goes to the new shard without an error. A session
that has read gets `StaleRoute`, and refuses everything after it.
Refuses (`CrossShard`): other slots, changes of a shard key, bulk methods, and statements that could touch other slots.
Source: https://docs.sqlalchemy.org/en/20/orm/session_events.html
"""

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from sqlalchemy import ClauseElement, CompoundSelect, Connection, TableClause, TextClause, event, inspect, select
from sqlalchemy.orm import (
    FromStatement,
    Mapper,
    ORMExecuteState,
    Session,
    SessionTransaction,
    object_session,
)
from sqlalchemy.sql.elements import BooleanClauseList, Grouping
from sqlalchemy.sql.selectable import AliasedReturnsRows

from apportion.errors import CrossShard, InvalidInput, StaleRoute
from apportion.shards.models import Reference, Sharded, rule_of
from apportion.shards.pin import Pin
from apportion.shards.pins.key_kinds import check_kind
from apportion.shards.pins.pinned_slot import PinnedSlot
from apportion.shards.pins.reach import OneSlotOption, SlotOption, check_core, check_parts
from apportion.shards.pins.slot_criterion import SlotCriterion

_FRESH = "Run the work again in a fresh session, as router.run(key, work) does."


class PinnedSession(Session):
    """A session that is pinned to the slot of its key for its whole life. The method `session` of a router makes it."""

    def __init__(self, *, pin: Pin, **options: Any) -> None:  # noqa: ANN401 - of the user's Session
        super().__init__(**{**options, "join_transaction_mode": "control_fully"})
        self.pin: Pin = pin
        self._fenced: Connection | None = None
        self._shard: str | None = None
        self._stale: StaleRoute | None = None

    def get_bind(self, *_: object, **__: object) -> Connection:
        """Return the fenced connection of the current transaction. The first call in a transaction begins it."""
        if self._stale is not None:
            raise InvalidInput("session", "one that got StaleRoute", "a fresh one", _FRESH) from self._stale
        if self._fenced is None:
            try:
                self._shard, self._fenced = self.pin.connected(self._shard)
            except StaleRoute as error:
                self._stale = error
                self.pin.refused()
                raise
        self.check_open()
        return self._fenced

    def check_open(self) -> None:
        """Raise `StoreClosed` if the router has ended, or if this process is a forked child."""
        if self._fenced is not None and self._shard is not None:
            self.pin.check_open(self._shard)

    def bulk_save_objects(self, *_: object, **__: object) -> None:
        """Refuse: bulk methods set no slot."""
        raise _without_slot("bulk_save_objects", self.pin)

    def bulk_insert_mappings(self, *_: object, **__: object) -> None:
        """Refuse: bulk methods set no slot."""
        raise _without_slot("bulk_insert_mappings", self.pin)

    def bulk_update_mappings(self, *_: object, **__: object) -> None:
        """Refuse: bulk methods check no slot."""
        raise _without_slot("bulk_update_mappings", self.pin)

    def _release(self) -> None:
        """Give the connection back when the transaction has ended."""
        fenced, self._fenced = self._fenced, None
        if fenced is not None:
            fenced.close()


@event.listens_for(PinnedSession, "before_commit")
def _committing(session: PinnedSession) -> None:
    session.check_open()


@event.listens_for(PinnedSession, "after_transaction_end")
def _ended(session: PinnedSession, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        session._release()


@event.listens_for(PinnedSession, "do_orm_execute")
def _guarded(state: ORMExecuteState) -> Any:  # noqa: ANN401 - the result of a statement
    """Keep a statement within the pinned slots, or refuse it."""
    session = state.session
    if not isinstance(session, PinnedSession):
        return None
    pin = session.pin
    if not state.is_orm_statement or isinstance(state.statement, FromStatement):
        if not pin.roads.has_triggers:
            raise _without_slot("a statement of Core or text", pin)
        check_core(state.statement)
        return None
    if state.is_column_load and state.bind_mapper is not None and issubclass(state.bind_mapper.class_, Sharded):
        one_row: Any = state.statement
        state.statement = one_row.where(_slot_of_row(state.bind_mapper, pin.slots))
        return None
    if state.is_select:
        if isinstance(state.statement, CompoundSelect):
            check_parts(state.statement)
        state.statement = limited(state.statement, _one_option(pin.slots))
        return None
    mapper = state.bind_mapper
    is_sharded = mapper is not None and issubclass(mapper.class_, Sharded)
    if (state.is_insert or state.is_update or state.is_delete) and not is_sharded:
        _refuse_reference(mapper, pin)
    if state.is_insert and mapper is not None and is_sharded:
        return _filled(state, mapper, pin)
    if state.is_update and mapper is not None and is_sharded:
        _check_update(state, mapper, pin)
    if state.is_update or state.is_delete:
        _limit_change(state, session)
    return None


def _limit_change(state: ORMExecuteState, session: PinnedSession) -> None:
    """Add the criterion of the slot to an update or a delete, or refuse the statement."""
    has_cte = check_parts(state.statement)
    _check_reach(state.statement, session.pin)
    if state.execution_options.get("dml_strategy") == "core_only":
        hint = "Leave out dml_strategy."
        raise _without_slot("an update or a delete with the strategy core_only", session.pin, hint)
    if not has_cte and _has_nothing_to_change(session, state):  # SQLite counts rows of a CTE only if they are fetched
        state.update_execution_options(synchronize_session=False)
        state.statement = limited(state.statement, _one_option(session.pin.slots))
    else:
        state.statement = limited(state.statement, _criteria(session.pin.slots))


def _has_nothing_to_change(session: PinnedSession, state: ORMExecuteState) -> bool:
    """Whether the session has no object that an update or a delete would change too. Then none is looked for."""
    wish = state.execution_options.get("synchronize_session", "auto")
    statement: Any = state.statement
    is_empty = len(session.identity_map) == 0 and not session.new
    return is_empty and wish == "auto" and not statement._returning


def _one_option(slots: tuple[int, ...]) -> SlotOption:
    """Return the cheapest criteria of slots. The session cannot evaluate those of one slot for its objects."""
    option: SlotOption = _ONE_SLOT if len(slots) == 1 else _criteria(slots)
    return option


def limited(statement: Any, option: SlotOption) -> Any:  # noqa: ANN401 - a statement
    """Return a copy of a statement with an option. The method `options` does the same in twice the time."""
    copied = statement._generate()
    copied._with_options += (option,)
    _group(copied)
    return copied


def _group(statement: Any) -> None:  # noqa: ANN401 - a copy of a statement
    """Put conditions with text in parentheses. Otherwise an OR in the text would end the criterion of the slot."""
    for each in getattr(statement, "_where_criteria", ()):
        if isinstance(each, _GROUPED):
            statement._where_criteria = tuple(
                Grouping(each) if isinstance(each, _GROUPED) else each for each in statement._where_criteria
            )
            break
    for name in ("_from_obj", "_raw_columns"):
        for inner in getattr(statement, name, ()):
            if isinstance(inner, AliasedReturnsRows):
                _group(inner)
    for inner in getattr(statement, "selects", ()):
        _group(inner)
    inner = getattr(statement, "element", None)
    if inner is not None:
        _group(inner)


_GROUPED = (TextClause, BooleanClauseList)
_ONE_SLOT = OneSlotOption(Sharded, lambda model: SlotCriterion(model.slot == PinnedSlot()), include_aliases=True)


@lru_cache(maxsize=4096)
def _criteria(slots: tuple[int, ...]) -> Any:  # noqa: ANN401 - an option of a statement
    """Return the criteria of slots with their values. The session can evaluate them for the objects that it has."""
    if len(slots) == 1:
        slot = slots[0]
        return SlotOption(Sharded, lambda model: SlotCriterion(model.slot == slot), include_aliases=True)
    return SlotOption(Sharded, lambda model: SlotCriterion(model.slot.in_(slots)), include_aliases=True)


@lru_cache(maxsize=4096)
def _slot_of_row(mapper: Mapper[Any], slots: tuple[int, ...]) -> SlotCriterion:
    """Return the criterion for one row that is read again, because options add none then."""
    slot = mapper.local_table.c.slot
    return SlotCriterion(slot == PinnedSlot() if len(slots) == 1 else slot.in_(slots))


def _filled(state: ORMExecuteState, mapper: Mapper[Any], pin: Pin) -> Any:  # noqa: ANN401 - a result
    """Run an insert of a list of rows, and add the slot of each row. Refuse other inserts."""
    statement: Any = state.statement
    if statement._values or statement._multi_values or statement.select is not None or not state.parameters:
        raise _without_slot("an insert with values()", pin, "Pass a list of rows: session.execute(insert(Model), rows)")
    given = state.parameters
    _check_conflict(statement, _fixed(mapper), pin)
    if isinstance(given, Mapping):
        return state.invoke_statement(params={"slot": _slot_of(mapper, given, pin)})
    return state.invoke_statement(params=[{"slot": _slot_of(mapper, row, pin)} for row in given])


def _check_conflict(statement: Any, fixed: Set[str], pin: Pin) -> None:  # noqa: ANN401 - an insert
    """Refuse an insert that could replace or change a row of another slot, or change the shard key of a row."""
    if statement._prefixes:
        raise _without_slot("an insert with prefixes", pin)
    conflict = statement._post_values_clause
    if conflict is None or not hasattr(conflict, "update_values_to_set"):
        return
    target = {getattr(column, "name", column) for column in conflict.inferred_target_elements or ()}
    changed = {getattr(column, "name", column) for column in dict(conflict.update_values_to_set)}
    if "slot" not in target or fixed & changed:
        hint = "Name the columns slot and primary key in index_elements, and set no shard key."
        raise _without_slot("an insert with on_conflict_do_update()", pin, hint)


def _check_reach(statement: Any, pin: Pin) -> None:  # noqa: ANN401 - an update or a delete
    """Refuse an update or a delete that also reads other rows. No criterion of slots would limit those rows."""
    values = (statement._values or {}).values() if statement.is_update else ()
    clauses = [each for each in (*statement._where_criteria, *values) if isinstance(each, ClauseElement)]
    beside = {source for clause in clauses for source in clause._from_objects} - {statement.table}
    if beside or statement._prefixes or not isinstance(statement.table, TableClause):
        hint = "Read other rows in a subquery, such as where(Place.id.in_(select(...)))."
        raise _without_slot("an update or a delete of an alias, with other rows, or with prefixes", pin, hint)


def _check_update(state: ORMExecuteState, mapper: Mapper[Any], pin: Pin) -> None:
    """Refuse an update that sets a shard key or a slot, and an update by a list of rows."""
    statement: Any = state.statement
    if isinstance(state.parameters, list):
        raise _without_slot("an update by a list of rows", pin, "Update with where(), or change the objects.")
    changed = {getattr(column, "name", column) for column in (statement._values or {})}
    changed |= {getattr(column, "name", column) for column, _ in (getattr(statement, "_ordered_values", None) or ())}
    changed |= set(state.parameters or {})
    for name in sorted(_fixed(mapper) & changed):
        raise _moved(f"{mapper.class_.__name__}.{name}", pin)


def _fixed(mapper: Mapper[Any]) -> set[str]:
    """Return the names of the columns that never change, and of their attributes. A statement may use both."""
    fixed = rule_of(mapper.class_).fixed
    return {*fixed, *(mapper.columns[name].name for name in fixed)}


@event.listens_for(Sharded, "before_insert", propagate=True)
def _inserting(mapper: Mapper[Any], connection: Connection, row: Any) -> None:  # noqa: ANN401 - any model
    session = object_session(row)
    if not isinstance(session, PinnedSession):
        return
    rule, values = rule_of(mapper.class_), inspect(row).dict
    if rule.parent and len(session.pin.slots) > 1 and values.get("slot") is None:
        row.slot = _slot_of_parent(mapper, connection, getattr(row, rule.parent), session.pin)
    row.slot = _slot_of(mapper, values, session.pin)


@event.listens_for(Sharded, "before_update", propagate=True)
@event.listens_for(Sharded, "before_delete", propagate=True)
def _changing(mapper: Mapper[Any], connection: Connection, row: Any) -> None:  # noqa: ANN401 - any model
    session = object_session(row)
    if not isinstance(session, PinnedSession):
        return
    state = inspect(row)
    for name in rule_of(mapper.class_).fixed:
        if state.attrs[name].history.has_changes():
            raise _moved(f"{mapper.class_.__name__}.{name}", session.pin)
    slot = state.dict.get("slot")
    if slot is None:  # The slot was not loaded, so the row may lie in any slot.
        slot = _stored_slot(mapper, connection, state.identity)
    if slot is not None and slot not in session.pin.slots:
        raise CrossShard(repr(state.identity), slot, session.pin.slots)


@event.listens_for(Reference, "before_insert", propagate=True)
@event.listens_for(Reference, "before_update", propagate=True)
@event.listens_for(Reference, "before_delete", propagate=True)
def _referring(mapper: Mapper[Any], _: Connection, row: Any) -> None:  # noqa: ANN401 - any model
    session = object_session(row)
    if isinstance(session, PinnedSession):
        _refuse_reference(mapper, session.pin)


def _slot_of(mapper: Mapper[Any], values: Mapping[str, Any], pin: Pin) -> int:
    """Return the slot of a new row, checked against the pin and against a slot that the caller gave."""
    rule, given = rule_of(mapper.class_), values.get("slot")
    key = None if rule.parent else rule.key_of(values)
    slot: Any = pin.slots[0] if given is None else given
    if key is not None:
        check_kind(mapper.class_, key)
        slot = pin.roads.table.slot(key)
    if slot not in pin.slots or given not in (None, slot):
        pin.check(pin.roads.table)
        raise CrossShard(given if key is None else key, slot, pin.slots)
    return int(slot)


def _stored_slot(mapper: Mapper[Any], connection: Connection, identity: Sequence[Any]) -> Any:  # noqa: ANN401 - a slot
    is_row = (column == value for column, value in zip(mapper.primary_key, identity, strict=True))
    return connection.execute(select(mapper.local_table.c.slot).where(*is_row)).scalar()


def _slot_of_parent(mapper: Mapper[Any], connection: Connection, parent: object, pin: Pin) -> int:
    column = mapper.columns[rule_of(mapper.class_).parent]
    named = next(iter(column.foreign_keys)).column  # each foreign key of this column names the parent
    slot = connection.execute(select(named.table.c.slot).where(named == parent)).scalar()
    if slot is None:
        raise CrossShard(parent, None, pin.slots)
    return int(slot)


def _refuse_reference(mapper: Mapper[Any] | None, pin: Pin) -> None:
    if mapper is not None and issubclass(mapper.class_, Reference):
        hint = "Write it on every shard, outside of pinned sessions."
        raise _without_slot(f"a write of the reference table {mapper.class_.__name__}", pin, hint)


def _moved(attribute: str, pin: Pin) -> CrossShard:
    hint = "Delete the row, and insert it in a session of the other key."
    return CrossShard(attribute, "another", pin.slots, hint)


def _without_slot(act: str, pin: Pin, hint: str = "Add objects, or execute ORM statements.") -> CrossShard:
    return CrossShard(act, "any", pin.slots, hint)
