"""The nightly job of the shop: a file with the orders and the turnover of each shop."""

import csv
import os
import sys
from pathlib import Path

from sqlalchemy import func, select

from apportion.sync import open_shards
from models import Base, Line, Order

EACH = select(Order.shop, func.count(Order.id.distinct()), func.sum(Line.cents)).join(Order.lines).group_by(Order.shop)


def turnovers() -> list[tuple[str, int, int]]:
    """Return the shops in order, with the numbers of their orders, and their turnovers in cents."""
    found: list[tuple[str, int, int]] = []
    with open_shards(os.environ["SHOP_URL"], "shop", base=Base) as router:
        for shard in router.each():
            found += [(shop, orders, cents) for shop, orders, cents in shard.session.execute(EACH)]
    return sorted(found)


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", newline="") as file:
        csv.writer(file).writerows([("shop", "orders", "cents"), *turnovers()])
