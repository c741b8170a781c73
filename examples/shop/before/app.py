"""The shop: each request gets a session for the shop that it names, as from a dependency of a web framework."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import Session

from models import Line, Order


@contextmanager
def opened() -> Iterator[Callable[[str], Session]]:
    """Open the database for the life of the process; yield the function that makes the session of a request."""
    engine = create_engine(os.environ["SHOP_URL"])
    yield lambda _: Session(engine)
    engine.dispose()


def buy(session: Session, shop: str, buyer: str, wanted: dict[str, int]) -> UUID:
    """Make an order, and return its id. `wanted` has the price of each product in cents."""
    order = Order(shop=shop, buyer=buyer)
    order.lines = [Line(product=product, cents=cents) for product, cents in wanted.items()]
    session.add(order)
    session.commit()
    return order.id


def buyers(session: Session, shop: str) -> list[str]:
    """Return the buyers of a shop."""
    return list(session.scalars(select(Order.buyer).where(Order.shop == shop).order_by(Order.buyer)))


def turnover(session: Session, shop: str) -> int:
    """Return the sum of all orders of a shop, in cents."""
    return session.scalar(select(func.sum(Line.cents)).join(Line.order).where(Order.shop == shop)) or 0


def cancel(session: Session, order_id: UUID) -> None:
    """Delete an order with its lines."""
    session.delete(session.get_one(Order, order_id))
    session.commit()
