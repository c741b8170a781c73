"""Models with a time: PostgreSQL makes them in partitions, and a model that it could not partition is refused."""

from datetime import date, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Date, ForeignKeyConstraint, String, UniqueConstraint
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.schema import CreateTable

from apportion.errors import InvalidInput, UnknownOption
from apportion.shards import Sharded
from apportion.shards.models import check_models
from apportion.shards.periods.period import LENGTHS, next_start, start_of, starts_after
from apportion.shards.periods.timed_table import TimedTable, timed_in
from tests.shards.periods.models import Base, Event, model

DAYS = st.dates(min_value=date(1900, 1, 1), max_value=date(2200, 1, 1))
REFUSED = {
    "a time without a period": ({"__shard_period__": None}, "both a time and a period"),
    "a period without a time": ({"__shard_time__": None}, "both a time and a period"),
    "an unknown attribute": ({"__shard_time__": "made_at"}, "one that Event maps"),
    "a time outside of the key": ({"created_at": mapped_column()}, "one with created_at, its time"),
    "a time that is text": ({"created_at": mapped_column(String, primary_key=True)}, "DateTime or Date"),
    "a long name": ({"__tablename__": "e" * 45}, "at most 44 characters"),
}


@given(st.sampled_from(LENGTHS), DAYS)
def test_each_day_lies_in_one_period(length, day):
    first, after = start_of(length, day), next_start(length, day)
    assert first <= day < after
    assert first == start_of(length, first)
    assert after == start_of(length, after) == starts_after(length, day, 1)


def test_postgresql_makes_the_table_in_ranges_of_its_time_and_sqlite_as_ever():
    assert (TimedTable(name="event", column="created_at", length="month"),) == timed_in(Base.metadata)
    made = str(CreateTable(Event.__table__).compile(dialect=postgresql.dialect()))
    assert 'PARTITION BY RANGE ("created_at")' in made
    assert "PARTITION" not in str(CreateTable(Event.__table__).compile(dialect=sqlite.dialect()))


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_cannot_be_partitioned_is_refused_when_its_class_is_made(case):
    parts, expected = REFUSED[case]
    with pytest.raises(InvalidInput, match=expected):
        model(**parts)


def test_an_unknown_period_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownOption, match="period of a table") as refused:
        model(__shard_period__="months")
    assert "month" == refused.value.nearest


def test_a_date_may_be_the_time_of_a_table():
    own = model(created_at=mapped_column(Date, primary_key=True))
    assert "created_at" == timed_in(own.metadata)[0].column


def test_a_unique_list_without_the_time_is_refused():
    class Own(DeclarativeBase):
        pass

    own = model(Own, __table_args__=(UniqueConstraint("country"),))
    with pytest.raises(InvalidInput, match="unique list of event is 'country', expected one with created_at"):
        check_models(Own)
    assert own.__table__.name == "event"


def test_a_foreign_key_to_a_table_with_a_time_is_refused():
    class Own(DeclarativeBase):
        pass

    model(Own)

    class Note(Sharded, Own):
        __tablename__ = "note"
        __shard_key__ = "country"
        __table_args__ = (ForeignKeyConstraint(["event_id", "event_at"], ["event.id", "event.created_at"]),)
        id: Mapped[UUID] = mapped_column(primary_key=True)
        country: Mapped[str]
        event_id: Mapped[UUID]
        event_at: Mapped[datetime]

    with pytest.raises(InvalidInput, match="a foreign key to event, a table that drops rows by time"):
        check_models(Own)
