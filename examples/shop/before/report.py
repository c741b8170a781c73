"""The report of the shop: the products with the largest turnover, of all shops together."""

import os

from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import Session

from models import Line

TURNOVER = func.sum(Line.cents)
BEST = select(Line.product, TURNOVER).group_by(Line.product).order_by(TURNOVER.desc())


def best_products(count: int = 10) -> list[tuple[str, int]]:
    """Return the best products with their turnovers in cents."""
    engine = create_engine(os.environ["SHOP_URL"])
    with Session(engine) as session:
        return [(product, cents) for product, cents in session.execute(BEST.limit(count))]


if __name__ == "__main__":
    for product, cents in best_products():
        print(f"{product}: {cents / 100:.2f}")
