"""The tests of the shop. They know nothing of shards, and pass on one database, on one shard, and on two."""

import pytest
from app import buy, buyers, cancel, opened, turnover

SHOPS = ("books", "tea", "bread", "wool", "lamps", "rope")


@pytest.fixture(scope="module")
def session_of():
    with opened() as made:
        yield made


def test_each_shop_has_its_orders(session_of):
    for number, shop in enumerate(SHOPS):
        with session_of(shop) as session:
            buy(session, shop, f"ann-{number}", {"one": 100, "two": number})
    for number, shop in enumerate(SHOPS):
        with session_of(shop) as session:
            assert f"ann-{number}" in buyers(session, shop)
            assert turnover(session, shop) >= 100 + number


def test_an_order_is_cancelled_with_its_lines(session_of):
    with session_of("tea") as session:
        before = turnover(session, "tea")
        order = buy(session, "tea", "bob", {"green": 300})
        assert before + 300 == turnover(session, "tea")
    with session_of("tea") as session:
        cancel(session, order)
        assert before == turnover(session, "tea")
        assert "bob" not in buyers(session, "tea")
