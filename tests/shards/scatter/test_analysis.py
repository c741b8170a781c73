"""Analysis: a statement that shards could not answer together is refused, with the reason, before a shard is asked."""

import pytest
from sqlalchemy import and_, collate, distinct, exists, func, literal_column, select, text, true, union_all
from sqlalchemy.orm import aliased, joinedload

from apportion.errors import NotScatterable
from apportion.shards.scatter.analysis import analysed
from apportion.shards.scatter.colocation import SetTables
from tests.shards.sample import Base as Places
from tests.shards.sample import Place
from tests.shards.scatter.statements import Base, Currency, Order, Shop, Staff

TABLES = SetTables.of(Base)
other = aliased(Shop)
per_tenant = select(Shop.tenant, func.count().label("shops")).group_by(Shop.tenant).subquery()
per_city = select(Shop.city, func.count().label("shops")).group_by(Shop.city).subquery()


def plan(statement, dialect="postgresql", tables=TABLES):
    return analysed(statement, tables, dialect)


REFUSED = {
    "no select": (text("SELECT 1"), "no select"),
    "a union": (select(union_all(select(Shop.id), select(Shop.id)).subquery().c.id), "UNION"),
    "text": (select(Shop.id).where(text("size > 3")), "text"),
    "a literal column": (select(literal_column("size")).select_from(Shop), "text"),
    "a volatile function": (select(Shop.id).where(func.random() < 0.5), "another value on each shard"),
    "a lock": (select(Shop.id).with_for_update(), "FOR UPDATE"),
    "fetch": (select(Shop.id).order_by(Shop.id).fetch(3), "FETCH"),
    "a prefix": (select(Shop.id).prefix_with("STRAIGHT_JOIN"), "prefixes"),
    "a loader": (select(Place).options(joinedload(Place.photos)), "options of the ORM"),
    "references alone": (select(Currency.code), "no sharded table"),
    "a table of another base": (select(Place.id), "neither a sharded table nor a reference table"),
    "an offset without an order": (select(Shop.id).offset(3), "OFFSET without ORDER BY"),
    "a limit that is no number": (select(Shop.id).limit(func.abs(3)), "no number"),
    "a join of rows apart": (select(Shop.id).join(Staff, Staff.wage > Shop.size), "may lie on several shards"),
    "a join by another column": (select(Shop.id).join(other, other.city == Shop.city), "may lie on several shards"),
    "a join under OR": (
        select(Shop.id).join(other, (other.tenant == Shop.tenant) | (other.size == 1)),
        "may lie on several shards",
    ),
    "an outer join by another column": (select(Shop.id).outerjoin(other, other.city == Shop.city), "outer join"),
    "references of rows on any shard": (
        select(Currency.code).where(exists().where(Order.currency == Currency.code).correlate(Currency)),
        "no sharded table in FROM",
    ),
    "a group of no known type": (
        select(func.date_trunc("month", Shop.opened)).group_by(func.date_trunc("month", Shop.opened)),
        "type_coerce",
    ),
    "references that stay": (select(Currency.code).outerjoin(Order, Order.currency == Currency.code), "outer join"),
    "a value in the condition of an outer join": (
        select(Shop.id)
        .outerjoin(Order, and_(Order.shop_id == Shop.id, Shop.tenant == "t1"))
        .join(Staff, Staff.tenant == "t1"),
        "may lie on several shards",
    ),
    "a mean of all": (
        select(Shop.id).where(Shop.size > select(func.avg(other.size)).scalar_subquery()),
        "may lie on several shards",
    ),
    "a query with the condition of its neighbour": (
        select(Shop.id).where(
            exists().where(Order.shop_id == Shop.id).correlate(Shop),
            Shop.size > select(func.avg(Order.amount)).scalar_subquery(),
        ),
        "may lie on several shards",
    ),
    "the same table within": (select(Shop.id).where(Shop.id.in_(select(Shop.id))), "twice"),
    "one of the first": (
        select(Shop.id).where(Shop.id.in_(select(Order.shop_id).order_by(Order.id).limit(1))),
        "may lie on several shards",
    ),
    "not in values that may be NULL": (select(Shop.id).where(Shop.size.not_in(select(Order.amount))), "several shards"),
    "groups from other shards": (select(per_city.c.shops), "groups that are spread over shards"),
    "a limit within": (select(select(Shop.id).limit(3).subquery().c.id), "a limit"),
    "two queries over one table": (
        select(select(Shop.id).subquery().c.id, select(Shop.city).subquery().c.city).where(true()),
        "twice",
    ),
    "text without a collation": (select(Shop.city).order_by(Shop.city), "collate"),
    "a mean of text": (select(func.avg(Shop.city)), "only numbers"),
    "the greatest text": (select(func.max(Shop.city)), "collate"),
    "distinct values": (select(func.count(distinct(Shop.city))), "counts each value once"),
    "distinct rows in another order": (select(Shop.size).distinct().order_by(Shop.score), "not selected"),
    "distinct groups": (select(func.count()).select_from(Shop).group_by(Shop.size).distinct(), "DISTINCT over groups"),
    "a computed aggregate": (select(func.sum(Shop.size) + 1), "no group and no aggregate"),
    "an unknown aggregate": (select(func.stddev(Shop.size)), "may be an aggregate"),
    "an unknown aggregate within": (
        select(select(func.string_agg(Shop.city, ",").label("all")).subquery().c.all),
        "groups that are spread",
    ),
    "a rollup": (select(func.count()).select_from(Shop).group_by(func.rollup(Shop.size)), "ROLLUP"),
    "a window over all": (select(Shop.id, func.rank().over(order_by=Shop.size)), "a window"),
    "a window by another column": (
        select(Shop.id, func.rank().over(partition_by=Shop.city, order_by=Shop.size)),
        "a window",
    ),
    "HAVING with a function": (
        select(Shop.size).group_by(Shop.size).having(func.count().between(1, 3)),
        "HAVING",
    ),
    "no FROM": (select(func.now()), "no FROM"),
    "exists() without a model": (select(exists().where(Shop.size > 3)), "names no model"),
    "objects of groups": (select(Shop).group_by(Shop.city), "no group and no aggregate"),
    "groups that exist": (
        select(select(Shop.city).group_by(Shop.city).having(func.count() > 3).exists()),
        "no plain exists",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_statement_without_one_answer_is_refused_with_its_reason(name):
    statement, reason = REFUSED[name]
    tables = SetTables.of(Places) if name == "a loader" else TABLES
    with pytest.raises(NotScatterable) as refused:
        plan(statement, tables=tables)
    assert reason in refused.value.reason
    assert "Nothing was read" in refused.value.hint


TOGETHER = {
    "by the parent": select(Shop.id).join(Order, Order.shop_id == Shop.id),
    "by the shard key": select(Shop.id).join(Staff, Staff.tenant == Shop.tenant),
    "by the slot": select(Shop.id).join(Staff, Staff.slot == Shop.slot),
    "by the primary key": select(Shop.id).join(other, other.id == Shop.id),
    "by one value": select(Shop.id).join(Staff, true()).where(Shop.tenant == "t1", Staff.tenant == "t1"),
    "with references": select(Shop.id).join(Order, Order.shop_id == Shop.id).join(Currency, true()),
    "within": select(Shop.id).where(Shop.id.in_(select(Order.shop_id))),
    "a subquery in FROM": select(per_tenant.c.shops).join(Staff, Staff.tenant == per_tenant.c.tenant),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_rows_that_lie_together_are_joined_on_their_shard(name):
    assert plan(TOGETHER[name]).groups is None


@pytest.mark.parametrize(
    ("statement", "is_spread"),
    [
        (select(Shop.size, func.count()).group_by(Shop.size), True),
        (select(Shop.tenant, func.stddev(Shop.size)).group_by(Shop.tenant), False),
        (select(Shop.size, func.count()).group_by(Shop.size, Shop.slot), False),
        (select(Order.shop_id, func.count()).group_by(Order.shop_id), False),
        (
            select(Order.shop_id, func.count())
            .outerjoin_from(Shop, Order, Order.shop_id == Shop.id)
            .group_by(Order.shop_id),
            True,
        ),
    ],
)
def test_groups_are_sent_in_parts_only_if_they_are_spread_over_shards(statement, is_spread):
    assert is_spread == (plan(statement).groups is not None)


def test_each_shard_sends_the_rows_of_the_limit_and_of_the_offset():
    found = plan(select(Shop.size).order_by(Shop.size.desc()).limit(10).offset(30))
    text_of_shard = f"{found.statement.compile(compile_kwargs={'literal_binds': True})}"
    assert "LIMIT 40" in text_of_shard
    assert "OFFSET" not in text_of_shard
    assert (10, 30) == (found.limit, found.offset)


def test_no_shard_sends_more_rows_than_the_caller_takes():
    found = plan(select(Shop.size)).at_most(100)
    assert "LIMIT 101" in f"{found.statement.compile(compile_kwargs={'literal_binds': True})}"
    limited = plan(select(Shop.size).limit(3))
    assert limited is limited.at_most(1)


@pytest.mark.parametrize(("dialect", "name"), [("postgresql", "C"), ("sqlite", "BINARY")])
def test_text_has_an_order_by_its_bytes(dialect, name):
    statement = select(Shop.city).order_by(collate(Shop.city, name))
    assert 1 == len(plan(statement, dialect).order)


@pytest.mark.parametrize(("dialect", "expected"), [("postgresql", [False, True]), ("sqlite", [True, False])])
def test_null_has_the_place_that_the_database_gives_it(dialect, expected):
    found = plan(select(Shop.size, Shop.score).order_by(Shop.size, Shop.score.desc()), dialect)
    assert expected == [key.has_nulls_first for key in found.order]
