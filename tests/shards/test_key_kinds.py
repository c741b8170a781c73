"""A number and its digits have two slots: a key of another kind than its column is refused, before it is written."""

import asyncio
import enum

import numpy as np
import pytest
from sqlalchemy import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import apportion
from apportion.errors import InvalidInput
from apportion.shards import Sharded, admin
from apportion.shards.pins.key_kinds import KeyKinds

SET = "numbers"


class Base(DeclarativeBase):
    pass


class Order(Sharded, Base):
    __tablename__ = "orders"
    __shard_key__ = "tenant"
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[int]


class Paint(enum.Enum):
    RED = "red"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    made = f"sqlite:///{folder}/control.db"
    asyncio.run(admin.init(made, SET, {"one": f"sqlite:///{folder}/one.db"}, base=Base, slots=64))
    return made


@pytest.fixture
def router(url):
    with apportion.sync.open_shards(url, SET, base=Base) as router:
        yield router


@pytest.mark.parametrize("ask", ["session", "slot", "shard"])
def test_digits_are_no_key_of_models_with_numbers(router, ask):
    getattr(router, ask)(7)
    getattr(router, ask)(np.int64(7))
    with pytest.raises(InvalidInput, match=r"^key is '7', expected an int"):
        getattr(router, ask)("7")


def test_a_key_has_as_many_values_as_those_of_the_models(router):
    with pytest.raises(InvalidInput, match="expected an int"):
        router.session((7, 8))


@pytest.mark.parametrize(
    "write",
    [
        lambda session: session.add(Order(id="a", tenant="7")),
        lambda session: session.execute(insert(Order), [{"id": "a", "tenant": "7"}]),
    ],
)
def test_a_row_with_digits_in_place_of_a_number_is_refused(router, write):
    with pytest.raises(InvalidInput, match="shard key of Order is '7', expected an int"):
        router.run(7, write)


def test_digits_cannot_be_pinned(url):
    with pytest.raises(InvalidInput, match="key is '7', expected an int"):
        asyncio.run(admin.pin(url, SET, ["7"], base=Base))


def test_a_column_that_converts_its_values_takes_each_kind():
    class Other(DeclarativeBase):
        pass

    class Can(Sharded, Other):
        __tablename__ = "can"
        __shard_key__ = ("paint", "size")
        id: Mapped[str] = mapped_column(primary_key=True)
        paint: Mapped[Paint]
        size: Mapped[int]

    kinds = KeyKinds(Other)
    assert [("red", 1), (2, 1)] == [kinds.checked(key) for key in (("red", 1), (2, 1))]
    with pytest.raises(InvalidInput, match="a tuple of a value, an int"):
        kinds.checked(("red", "1"))
