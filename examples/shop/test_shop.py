"""The tests of the shop. They know nothing of shards: they pass on one database, one shard, and two."""

import pytest
from app import buy, buyers, cancel, opened, turnover
from nightly import turnovers
from report import best_products

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


def test_the_report_has_the_best_products_of_all_shops(session_of):
    before = dict(best_products(100))
    for shop in SHOPS:
        with session_of(shop) as session:
            buy(session, shop, "eve", {"best": 7000, "good": 500})
    products = best_products(2)
    assert products[0][0] == "best"
    assert before.get("best", 0) + 7000 * len(SHOPS) == products[0][1]
    assert before.get("good", 0) + 500 * len(SHOPS) == dict(best_products(100))["good"]


def test_the_nightly_job_forgets_no_shop(session_of):
    for shop in SHOPS:
        with session_of(shop) as session:
            buy(session, shop, "joe", {"one": 1})
    found = turnovers()
    assert sorted(SHOPS) == [shop for shop, _, _ in found]
    for shop, orders, cents in found:
        with session_of(shop) as session:
            assert (len(buyers(session, shop)), turnover(session, shop)) == (orders, cents)
