"""Models say how their rows find a slot, and where all of a row lies; others are refused where they are written."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import ForeignKey, Integer
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import apportion
from apportion.errors import InvalidInput
from apportion.shards import Sharded
from tests.shards.sample import SET


def test_a_model_that_does_not_say_how_its_rows_find_their_slot_is_refused():
    class Other(DeclarativeBase):
        pass

    with pytest.raises(InvalidInput, match="base is 'Other'"):
        apportion.sync.open_shards("memory://x", SET, base=Other)
    with pytest.raises(InvalidInput, match="either a shard key or a parent"):
        type("Lost", (Sharded, Other), {"__tablename__": "lost", "id": mapped_column(Integer, primary_key=True)})


@pytest.fixture
def animal():
    class Zoo(DeclarativeBase):
        pass

    class Animal(Sharded, Zoo):
        __tablename__ = "animal"
        __shard_key__ = "owner"
        __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012 - SQLAlchemy's
        id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
        owner: Mapped[str]
        kind: Mapped[str]

    return Animal


def test_a_subclass_with_a_table_of_its_own_is_refused(animal):
    with pytest.raises(InvalidInput, match="rows in the table of Animal alone") as refusal:

        class Dog(animal):
            __tablename__ = "dog"
            id: Mapped[UUID] = mapped_column(ForeignKey("animal.id"), primary_key=True)

    assert "__shard_parent__" in refusal.value.hint


def test_a_subclass_in_the_table_of_its_base_is_taken(animal):
    class Cat(animal):
        __mapper_args__ = {"polymorphic_identity": "cat"}  # noqa: RUF012 - SQLAlchemy's
        lives: Mapped[int | None]

    assert Cat.__table__ is animal.__table__
