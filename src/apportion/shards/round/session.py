"""Session of a round: a session of SQLAlchemy that reads the rows of one turn.

Promises: a statement sees the rows of the slots of the turn alone. The database refuses writes.
Refuses (`InvalidInput`): statements of Core and text, which would see rows of other slots, and use after the turn.
"""

from typing import Any

from sqlalchemy import CompoundSelect, Connection, event
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import FromStatement, ORMExecuteState, Session

from apportion.errors import InvalidInput
from apportion.shards.pins.reach import check_parts
from apportion.shards.round.turn import RoundTurn
from apportion.shards.scatter.owned_rows import check_reached
from apportion.shards.scatter.refusal import Unanswerable
from apportion.shards.sessions import limited


class RoundSession(Session):
    """A session that reads the rows of one turn. Its transaction is that of the turn, and a commit does not end it."""

    def __init__(self, *, turn: RoundTurn, **options: Any) -> None:  # noqa: ANN401 - of the user's Session
        super().__init__(**{**options, "join_transaction_mode": "rollback_only"})
        self.turn: RoundTurn = turn
        self._reached: set[object] = set()

    def get_bind(self, *_: object, **__: object) -> Connection:
        """Return the connection of the turn. `InvalidInput` if its transaction has ended."""
        return self.turn.connection

    def check_reached(self, statement: Any) -> None:  # noqa: ANN401 - a select
        """Refuse a query in which a sharded table would not be limited. Each form of a query is compiled once."""
        form = statement._generate_cache_key()
        if form is not None and form.key in self._reached:
            return
        turn, connection = self.turn, self.turn.connection
        try:
            check_reached(statement, connection.dialect.name, turn.tables)
        except Unanswerable as error:
            raise _refused("one with a table in place of a model") from error
        if form is not None:
            self._reached.add(form.key)


AsyncRoundSession = AsyncSession
SyncRoundSession = RoundSession


@event.listens_for(RoundSession, "do_orm_execute")
def _guarded(state: ORMExecuteState) -> None:
    """Limit a query to the slots of the turn, or refuse it. The database refuses all that writes."""
    session = state.session
    if not isinstance(session, RoundSession) or state.is_column_load:  # a row is read again in the same transaction
        return
    if not state.is_orm_statement or isinstance(state.statement, FromStatement):
        raise _refused("one of Core or text")
    if not state.is_select:
        return
    if isinstance(state.statement, CompoundSelect):
        check_parts(state.statement)
    if not state.is_relationship_load:
        session.check_reached(state.statement)
    state.statement = limited(state.statement, session.turn.option)


def _refused(found: str) -> InvalidInput:
    hint = "Select from the models. session.connection() takes other statements, with a condition on slot of your own."
    return InvalidInput("statement", found, "one that can be limited to the slots of the turn", hint)
