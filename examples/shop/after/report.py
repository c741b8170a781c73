"""The report of the shop: the products with the largest turnover, of all shops together."""

import os

from sqlalchemy import func, select

from apportion.sync import open_shards
from models import Base, Line

TURNOVER = func.sum(Line.cents)
BEST = select(Line.product, TURNOVER).group_by(Line.product).order_by(TURNOVER.desc())


def best_products(count: int = 10) -> list[tuple[str, int]]:
    """Return the best products with their turnovers in cents."""
    with open_shards(os.environ["SHOP_URL"], "shop", base=Base) as router:
        return [(product, cents) for product, cents in router.scatter(BEST.limit(count))]


if __name__ == "__main__":
    for product, cents in best_products():
        print(f"{product}: {cents / 100:.2f}")
