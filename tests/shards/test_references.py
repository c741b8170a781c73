"""Reference tables are equal on every shard: a shard that joins gets their rows, and `verify` compares them."""

import asyncio
from decimal import Decimal

import pytest
from sqlalchemy import JSON, ForeignKey, Numeric, create_engine, delete, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.errors import Unequal
from apportion.shards import Reference, Sharded, admin
from apportion.shards.dialects import address_of
from apportion.shards.forms import sync_form
from apportion.shards.foundation import found
from apportion.shards.records import ShardRecord
from tests.shards.server import OWNER, as_role

SLOTS = 64


class MoneyBase(DeclarativeBase):
    pass


class Money(Reference, MoneyBase):
    __tablename__ = "money"
    code: Mapped[str] = mapped_column(primary_key=True)
    area: Mapped[str] = mapped_column(ForeignKey("area.name"))
    rate: Mapped[Decimal] = mapped_column(Numeric(12, 6))
    facts: Mapped[dict] = mapped_column(JSON)


class Area(Reference, MoneyBase):
    __tablename__ = "area"
    name: Mapped[str] = mapped_column(primary_key=True)


class Account(Sharded, MoneyBase):
    __tablename__ = "account"
    __shard_key__ = "owner"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner: Mapped[str]
    code: Mapped[str] = mapped_column(ForeignKey("money.code"))


MONEY = [
    {"code": f"C{number}", "area": "EU", "rate": Decimal("1.250000"), "facts": {"old": number}}
    for number in range(2_500)
]


class MoneySet:
    """A set with one shard, and a place for others. The rows of reference tables are written as an operator does."""

    def __init__(self, databases):
        self.databases, self.url, self.name = databases, databases.url.replace("control", "money"), "money"
        self.records = {each: ShardRecord(url=databases.place(each)) for each in ("a", "b", "c")}

    def made(self, *shards):
        asyncio.run(found(self.url, self.name, {each: self.records[each] for each in shards}, MoneyBase, SLOTS))

    def add(self, shard):
        records = {shard: self.records[shard].url}
        asyncio.run(admin.add(self.url, self.name, records, base=MoneyBase))

    def write(self, shard, *statements):
        engine = create_engine(address_of(self.records[shard].address(), sync_form.drivers))
        with engine.begin() as connection:
            results = [connection.execute(each) for each in statements]
            rows = results[-1].all() if results[-1].returns_rows else []
        engine.dispose()
        return rows

    def fill(self, shard):
        self.write(shard, insert(Area).values(name="EU"), insert(Money).values(MONEY))

    def verify(self):
        return asyncio.run(admin.verify(self.url, self.name, base=MoneyBase))


@pytest.fixture
def money(make_set, kind, monkeypatch):
    made = MoneySet(make_set(kind, shards=("one",)))
    if kind == "postgresql":
        as_role(monkeypatch, OWNER)
    return made


def test_a_shard_that_is_added_gets_the_rows_of_reference_tables(money):
    money.made("a")
    money.fill("a")
    for _ in range(2):
        money.add("b")
        wanted = money.write("a", select(Money.__table__).order_by("code"))
        assert len(wanted) == len(MONEY)
        assert wanted == money.write("b", select(Money.__table__).order_by("code"))
    whole = money.verify()
    assert (2_501, 0) == (whole.references, whole.faulty)


def test_rows_that_are_there_must_be_equal(money):
    money.made("a")
    money.fill("a")
    money.add("b")
    money.write("b", delete(Money).where(Money.code == "C7"))
    with pytest.raises(Unequal, match=r"^table 'money' differs on shard a and b: \('C7',\)\."):
        money.add("b")
    whole = money.verify()
    assert (1, ("money ('C7',) is not the same on shard a and on shard b",)) == (whole.faulty, whole.faults)


def test_a_changed_value_is_a_fault(money):
    money.made("a")
    money.fill("a")
    money.add("b")
    money.write("b", Money.__table__.update().where(Money.code == "C9").values(rate=Decimal("1.26")))
    assert ("money ('C9',) is not the same on shard a and on shard b",) == money.verify().faults


def test_a_set_that_begins_with_rows_has_them_on_all_shards(money):
    engine = create_engine(address_of(money.records["a"].address(), sync_form.drivers))
    tables = [MoneyBase.metadata.tables[name] for name in ("area", "money")]
    MoneyBase.metadata.create_all(engine, tables=tables)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, owner VARCHAR NOT NULL, "
            "code VARCHAR NOT NULL REFERENCES money)"
        )
        connection.execute(insert(Area).values(name="EU"))
        connection.execute(insert(Money).values(MONEY))
        connection.exec_driver_sql("INSERT INTO account VALUES (1, 'ann', 'C1')")
    engine.dispose()
    money.made("a", "b")
    whole = money.verify()
    assert (1, 2_501, ()) == (whole.rows, whole.references, whole.faults)
