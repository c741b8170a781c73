"""Random statements over three tables that lie together, and over a reference table; and the rows to ask them about.

A statement comes with the promise of its order: `total` if no two rows are equal in it, "" if there is none.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Float,
    ForeignKey,
    Integer,
    Numeric,
    String,
    and_,
    case,
    cast,
    collate,
    distinct,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, aliased, mapped_column, relationship

from apportion.shards import Reference, Sharded

ON_SHOP = "foreign(Order.shop_id) == Shop.id"


class Base(DeclarativeBase):
    pass


class Shop(Sharded, Base):
    __tablename__ = "shop"
    __shard_key__ = "tenant"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    city: Mapped[str | None] = mapped_column(String)
    size: Mapped[int | None]
    score: Mapped[float | None] = mapped_column(Float)
    price: Mapped[Decimal | None] = mapped_column(Numeric(12, 3))
    opened: Mapped[datetime | None]
    is_open: Mapped[bool | None]
    orders: Mapped[list["Order"]] = relationship(primaryjoin=ON_SHOP, viewonly=True, lazy="joined")


class Order(Sharded, Base):
    __tablename__ = "orders"
    __shard_parent__ = "shop_id"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    shop_id: Mapped[UUID] = mapped_column(ForeignKey("shop.id"))
    amount: Mapped[int | None]
    currency: Mapped[str]
    shop: Mapped[Shop] = relationship(primaryjoin=ON_SHOP, viewonly=True)


class Staff(Sharded, Base):
    __tablename__ = "staff"
    __shard_key__ = "tenant"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    wage: Mapped[float | None] = mapped_column(Float)


class Currency(Reference, Base):
    __tablename__ = "currency"
    code: Mapped[str] = mapped_column(primary_key=True)
    rate: Mapped[int]


DAYS = [datetime(2024, 1, day) for day in (1, 2, 3)]  # noqa: DTZ001 - a column without a zone


def rows(seed: int, tenants: int = 24) -> list[Any]:
    """Return rows with ties, duplicates and NULLs, those of a tenant one after another."""
    draw = Random(seed)

    def _id():
        return UUID(int=draw.getrandbits(128))

    found: list[Any] = []
    for tenant in (f"t{number}" for number in range(tenants)):
        for _ in range(draw.choice([0, 1, 2, 5])):
            shop = Shop(
                id=_id(),
                tenant=tenant,
                city=draw.choice([None, "", "a", "B", "b", "é", "z z"]),
                size=draw.choice([None, -3, 0, 1, 1, 2, 7, 10**9]),
                score=draw.choice([None, -0.5, 0.0, 0.25, 1e10, 3.75]),
                price=draw.choice([None, Decimal("0.000"), Decimal("1.500"), Decimal("-2.125"), Decimal("99999.999")]),
                opened=draw.choice([None, *DAYS]),
                is_open=draw.choice([None, True, False]),
            )
            orders = [
                Order(id=_id(), shop_id=shop.id, amount=draw.choice([None, 1, 5, 5, 40]), currency=draw.choice("EUC"))
                for _ in range(draw.choice([0, 1, 3]))
            ]
            found += [shop, *orders]
        found += [Staff(id=_id(), tenant=tenant, wage=draw.choice([None, 1.5, 2.0])) for _ in range(draw.randrange(3))]
    return found


REFERENCES = [("E", 1), ("U", 2), ("X", 3)]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A statement, the same one without limits, and whether its order is total."""

    statement: Any
    unlimited: Any
    is_ordered: bool
    is_total: bool
    clauses: frozenset[str]


class Draw:
    """Draws statements."""

    def __init__(self, seed: int, dialect: str) -> None:
        self._draw, self._dialect = Random(seed), dialect
        self._price = Shop.price if dialect == "postgresql" else cast(Shop.price, Float)

    def statement(self) -> Drawn:
        """Return a random statement. Some cannot be answered."""
        draw = self._draw
        self._used: set[str] = set()
        self._tables = [Shop]
        kind = draw.choice(["rows", "rows", "groups", "groups", "total", "window", "exists"])
        self._used.add(kind)
        if kind == "exists":
            inner = select(Shop.id).where(*self._conditions())
            found = select(
                inner.exists() if draw.random() < 0.7 else exists().where(Shop.size > draw.choice([0, 9**9]))
            )
            return Drawn(
                statement=found, unlimited=found, is_ordered=False, is_total=True, clauses=frozenset(self._used)
            )
        found, ids = self._source()
        columns = self._columns(kind)
        found = found.with_only_columns(*columns, maintain_column_froms=True)
        found = found.where(*self._conditions())
        if kind == "groups":
            groups = self._groups
            found = found.group_by(*groups)
            if draw.random() < 0.4:
                self._used.add("having")
                found = found.having(self._having())
        if kind == "rows" and draw.random() < 0.3:
            self._used.add("distinct")
            found = found.distinct()
        return self._limited(found, columns, ids if kind in ("rows", "window") and "distinct" not in self._used else [])

    def _source(self):
        draw, found, ids = self._draw, select(Shop.id), [Shop.id]
        join = draw.choice(["", "", "", "orders", "outer", "outer staff", "staff", "currency", "self", "apart"])
        if join:
            self._used.add(f"join {join}")
        if join == "orders":
            found, ids = found.join(Order, Order.shop_id == Shop.id), [Shop.id, Order.id]
            self._tables.append(Order)
        elif join == "outer":
            on = and_(Order.shop_id == Shop.id, Order.amount > 1) if draw.random() < 0.5 else Order.shop_id == Shop.id
            found, ids = found.outerjoin(Order, on), [Shop.id, Order.id]
            self._tables.append(Order)
        elif join == "outer staff":
            found = found.outerjoin(Staff, and_(Staff.tenant == Shop.tenant, Staff.wage > 1.6))
            ids = [Shop.id, Staff.id]
            self._tables.append(Staff)
        elif join == "staff":
            found, ids = found.join(Staff, Staff.tenant == Shop.tenant), [Shop.id, Staff.id]
            self._tables.append(Staff)
        elif join == "currency":
            found = found.join(Order, Order.shop_id == Shop.id).join(Currency, Currency.code == Order.currency)
            ids = [Shop.id, Order.id]
            self._tables += [Order, Currency]
        elif join == "self":
            other = self._other = aliased(Shop)
            found, ids = (
                found.join(other, and_(other.tenant == Shop.tenant, other.size < Shop.size)),
                [Shop.id, other.id],
            )
        elif join == "apart":
            other = aliased(Shop)
            found, ids = found.join(other, other.size == Shop.size), [Shop.id, other.id]
        return found, ids

    def _plain(self):
        choices = [Shop.tenant, Shop.city, Shop.size, Shop.score, self._price, Shop.opened, Shop.is_open]
        choices += [Shop.size + 1, func.coalesce(Shop.size, 0), func.length(Shop.city, type_=Integer)]
        if Order in self._tables:
            choices += [Order.amount, Order.shop_id]
        if Staff in self._tables:
            choices += [Staff.wage]
        if Currency in self._tables:
            choices += [Currency.rate]
        if "join self" in self._used:
            choices += [self._other.size, self._other.city, self._other.score]
        return self._draw.choice(choices)

    def _aggregate(self):
        draw = self._draw
        number = draw.choice([Shop.size, Shop.score, self._price] + ([Order.amount] if Order in self._tables else []))
        found = draw.choice(
            [func.count(), func.count(number), func.sum(number), func.avg(number), func.min(number), func.max(number)]
            + [func.min(Shop.opened), func.max(self._text(Shop.city)), func.count(distinct(Shop.tenant))]
            + [func.count(distinct(number))]
            + ([func.bool_or(Shop.is_open), func.bool_and(Shop.is_open)] if self._dialect == "postgresql" else [])
        )
        self._used.add(found.name)
        if draw.random() < 0.2:
            self._used.add("filter")
            found = found.filter(Shop.size > 0)
        return found

    def _text(self, column):
        return collate(column, "C") if self._dialect == "postgresql" and self._draw.random() < 0.9 else column

    def _columns(self, kind):
        draw = self._draw
        if kind == "total":
            return [self._aggregate() for _ in range(draw.randint(1, 3))]
        plain = [self._plain() for _ in range(draw.randint(1, 3))]
        if kind == "groups":
            if draw.random() < 0.25:
                plain.append(Shop.tenant)
            self._groups = plain
            return [*plain, *(self._aggregate() for _ in range(draw.randint(1, 2)))]
        if kind == "window":
            by = draw.choice([Shop.tenant, Shop.tenant, Shop.city])
            return [*plain, func.rank().over(partition_by=by, order_by=[Shop.size, Shop.id])]
        return plain

    def _conditions(self):
        draw, found = self._draw, []
        for _ in range(draw.choice([0, 1, 1, 2])):
            inner, staff = aliased(Shop), aliased(Staff)
            of_tenant = staff.tenant == (Staff if Staff in self._tables else Shop).tenant
            member = (Staff if Staff in self._tables else Shop).tenant
            choices = {
                "compare": Shop.size > draw.choice([-5, 0, 1, 5]),
                "null": Shop.city.is_(None),
                "or": or_(Shop.score < 1, Shop.city == "b"),
                "like": Shop.tenant.like("t1%"),
                "in": Shop.size.in_([0, 1, 7]),
                "exists": exists().where(Order.shop_id == Shop.id).correlate(Shop),
                "not exists": ~exists().where(inner.tenant == Shop.tenant, inner.size > Shop.size),
                "exists within": select(staff.id)
                .where(of_tenant, select(inner.id).where(inner.tenant == staff.tenant, inner.size > 1).exists())
                .exists(),
                "not in tenants": member.not_in(select(staff.tenant).where(staff.wage > draw.choice([1.6, 9]))),
                "except": select(staff.id).where(of_tenant).correlate_except(staff).exists(),
                "any": Shop.orders.any(Order.amount > 3),
                "case": case((Shop.size > 1, Shop.score), else_=0.0) < 1,
                "in query": Shop.id.in_(select(Order.shop_id).where(Order.amount > 3)),
                "not in": Shop.id.not_in(select(Order.shop_id)),
                "scalar": select(func.count(inner.id)).where(inner.tenant == Shop.tenant).scalar_subquery() > 2,
                "apart": Shop.size > select(func.avg(inner.size)).scalar_subquery(),
                "not": ~(Shop.is_open.is_(True)),
            }
            name = draw.choice([*choices, *list(choices)[:6]])
            self._used.add(f"where {name}")
            found.append(choices[name])
        return found

    def _having(self):
        draw = self._draw
        return draw.choice(
            [
                func.count() > draw.choice([1, 2, 3]),
                func.sum(Shop.size) > 3,
                and_(func.count() >= 1, or_(func.min(Shop.size) < 1, func.max(Shop.score).is_not(None))),
                func.avg(Shop.size) != 1,
            ]
        )

    def _limited(self, found, columns, ids):
        draw, unlimited = self._draw, found
        is_ordered = draw.random() < 0.75
        is_total = False
        if is_ordered:
            self._used.add("order")
            chosen = draw.sample(range(len(columns)), draw.randint(1, len(columns)))
            keys = []
            for place in chosen:
                key = columns[place]
                key = self._text(key) if key in (Shop.tenant, Shop.city) else key
                key = key.desc() if draw.random() < 0.5 else key
                if draw.random() < 0.2:
                    self._used.add("nulls")
                    key = key.nulls_first() if draw.random() < 0.5 else key.nulls_last()
                keys.append(key)
            if ids and draw.random() < 0.7:
                keys += ids
            is_total = len(keys) > len(chosen)
            found = unlimited = found.order_by(*keys)
        if draw.random() < 0.6:
            self._used.add("limit")
            found = found.limit(draw.choice([0, 1, 3, 10, 1000]))
        if draw.random() < 0.3:
            self._used.add("offset")
            found = found.offset(draw.choice([0, 1, 4, 500]))
        return Drawn(
            statement=found,
            unlimited=unlimited,
            is_ordered=is_ordered,
            is_total=is_total,
            clauses=frozenset(self._used),
        )
