"""The tables of the shop. A line of an order has no column for the shop."""

from uuid import UUID, uuid4

from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    """The base of all tables."""


class Order(Base):
    """An order in one of the shops."""

    __tablename__ = "orders"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    shop: Mapped[str]
    buyer: Mapped[str]
    lines: Mapped[list["Line"]] = relationship(back_populates="order", cascade="all")


class Line(Base):
    """A line of an order."""

    __tablename__ = "lines"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"))
    product: Mapped[str]
    cents: Mapped[int]
    order: Mapped[Order] = relationship(back_populates="lines")
