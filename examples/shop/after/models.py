"""The tables of the shop. A line of an order has no column for the shop."""

from uuid import UUID, uuid4

from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from apportion import shards


class Base(DeclarativeBase):
    """The base of all tables."""


class Order(shards.Sharded, Base):
    """An order in one of the shops."""

    __tablename__ = "orders"
    __shard_key__ = "shop"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    shop: Mapped[str]
    buyer: Mapped[str]
    lines: Mapped[list["Line"]] = relationship(foreign_keys="Line.order_id", back_populates="order", cascade="all")


class Line(shards.Sharded, Base):
    """A line of an order."""

    __tablename__ = "lines"
    __shard_parent__ = "order_id"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"))
    product: Mapped[str]
    cents: Mapped[int]
    order: Mapped[Order] = relationship(foreign_keys=[order_id], back_populates="lines")
