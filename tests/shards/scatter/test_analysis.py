"""Analysis: a statement that shards could not answer together is refused, with the reason, before a shard is asked."""

from datetime import datetime
from decimal import Decimal
from math import inf
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import (
    REAL,
    Boolean,
    DateTime,
    Float,
    Integer,
    String,
    Time,
    and_,
    bindparam,
    cast,
    collate,
    column,
    desc,
    distinct,
    exists,
    func,
    literal,
    literal_column,
    select,
    text,
    true,
    type_coerce,
    union_all,
)
from sqlalchemy.orm import Bundle, aliased, joinedload
from sqlalchemy.orm import outerjoin as orm_outerjoin

from apportion import shards
from apportion.errors import NotScatterable, UnknownOption
from apportion.shards.scatter.analysis import analysed
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.order import OrderKey, alike, sort_key
from tests.shards.sample import Base as Places
from tests.shards.sample import Place
from tests.shards.scatter.statements import Base, Currency, Order, Shop, Staff

TABLES = SetTables.of(Base)
other, another = aliased(Shop), aliased(Shop)
per_city = select(Shop.city, func.count().label("shops")).group_by(Shop.city).subquery()


def plan(statement, dialect="postgresql", tables=TABLES):
    return analysed(statement, tables, dialect)


REFUSED = {
    "no select": (text("SELECT 1"), "no select"),
    "a union": (select(Shop.id).where(Shop.id.in_(union_all(select(Order.shop_id), select(Order.shop_id)))), "UNION"),
    "text": (select(Shop.id).where(text("size > 3")), "text"),
    "a literal column": (select(literal_column("size")).select_from(Shop), "text"),
    "a volatile function": (select(Shop.id).where(func.random() < 0.5), "may be volatile"),
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
        select(func.round(Shop.score)).group_by(func.round(Shop.score)),
        "cast",
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
    "a query in FROM": (select(per_city.c.shops), "a query in FROM"),
    "a CTE": (select(select(Shop.id).cte().c.id), "a CTE"),
    "text without a collation": (select(Shop.city).order_by(Shop.city), "collate"),
    "a mean of text": (select(func.avg(Shop.city)), "only numbers"),
    "the greatest text": (select(func.max(Shop.city)), "collate"),
    "distinct values": (select(func.count(distinct(Shop.city))), "counts each value once"),
    "distinct rows in another order": (select(Shop.size).distinct().order_by(Shop.score), "not selected"),
    "distinct groups": (select(func.count()).select_from(Shop).group_by(Shop.size).distinct(), "DISTINCT over groups"),
    "a computed aggregate": (select(func.sum(Shop.size) + 1), "no group and no aggregate"),
    "an aggregate without parts": (select(func.stddev(Shop.size)), "cannot be made"),
    "a function of the application": (select(func.my_function(Shop.size)), "not known"),
    "a rollup": (select(func.count()).select_from(Shop).group_by(func.rollup(Shop.size)), "not known"),
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
    "objects of groups": (select(Shop).group_by(Shop.city), "no group and no aggregate"),
    "distinct() of a column": (select(distinct(Shop.size)), "select(...).distinct()"),
    "a table without its model": (select(Shop.__table__.c.size), "without its model"),
    "a subquery over a table without its model": (
        select(Shop.id).where(Shop.id.in_(select(Order.__table__.c.shop_id))),
        "without its model",
    ),
    "a column within an expression alone": (select(and_(Shop.size > 1, Shop.size < 5)), "select_from(Model)"),
    "a column of no table": (select(Shop.id, column("rowid")), "cannot be examined"),
    "an operator in text": (select(Shop.id).where(Shop.size.op("= 1 OR 1 =")(1)), "operator"),
    "a hint": (select(Shop.id).with_statement_hint("LIMIT 3"), "hints"),
    "a Bundle": (select(Bundle("two", Shop.id, Shop.size)), "Bundle"),
    "a join() in FROM": (
        select(Shop.id).select_from(orm_outerjoin(Shop, Staff, Staff.tenant == Shop.tenant)),
        "write it as",
    ),
    "a full join": (select(Shop.id).join(Staff, Staff.tenant == Shop.tenant, full=True), "FULL JOIN"),
    "a value from a function": (
        select(Shop.id).where(Shop.tenant == bindparam("tenant", callable_=lambda: "t1")),
        "pass the value",
    ),
    "a name for two columns": (
        select(Shop.size.label("x"), Shop.score.label("x"), Shop.id).order_by("x"),
        "2 columns",
    ),
    "the time of each shard": (select(func.date("now", Shop.opened)).select_from(Shop), "pass the time"),
    "a table that only the query around another one reads": (
        select(Shop.id).where(
            exists().where(Order.shop_id == Shop.id, select(Staff.id).where(Staff.tenant == Shop.tenant).exists())
        ),
        "twice",
    ),
    "a query that is told to read all itself": (
        select(Shop.id).where(select(Staff.id).where(Staff.tenant == Shop.tenant).correlate(None).exists()),
        "twice",
    ),
    "a query that joins the table around it again": (
        select(Shop.id).where(
            select(Order.id).select_from(Shop).join(Order, Order.shop_id == Shop.id).correlate(Shop).exists()
        ),
        "twice",
    ),
    "an aggregate of the query around": (
        select(Shop.id, select(func.count(Shop.id)).where(Staff.tenant == Shop.tenant).scalar_subquery()),
        "an aggregate of a column of the query around it",
    ),
    "not in the rows of an outer join": (
        select(Shop.id).where(
            Shop.tenant.not_in(select(Staff.tenant).select_from(other).outerjoin(Staff, Staff.tenant == other.tenant))
        ),
        "may lie on several shards",
    ),
    "a member from an outer join": (
        select(Shop.id)
        .outerjoin(Staff, Staff.tenant == Shop.tenant)
        .where(Staff.tenant.not_in(select(other.tenant).where(other.size > 3))),
        "may lie on several shards",
    ),
    "a mean with a type": (select(func.avg(Shop.size, type_=Integer)), "a type of its own"),
    "a sum with a type": (select(func.sum(Shop.score, type_=Integer)), "another type"),
    "groups of numbers taken for booleans": (
        select(func.count()).select_from(Shop).group_by(type_coerce(Shop.size, Boolean)),
        "cast()",
    ),
    "HAVING that compares unlike values": (
        select(Shop.city).group_by(Shop.city).having(func.max(Shop.size) < Shop.city),
        "HAVING",
    ),
    "exists() with more": (
        select(select(Shop.id).exists()).where(select(Staff.id).where(Staff.tenant == "t1").exists()),
        "more than columns",
    ),
    "exists() of references": (
        select(select(Currency.code).where(~exists().where(Order.currency == Currency.code)).exists()),
        "no sharded table in FROM",
    ),
    "a group of another alias": (
        select(other.city, func.count()).join(another, another.tenant == other.tenant).group_by(another.city),
        "no group and no aggregate",
    ),
    "distinct objects": (
        select(Currency).join(Order, Order.currency == Currency.code).distinct(),
        "DISTINCT over objects",
    ),
    "kept rows that lie apart": (
        select(func.count())
        .select_from(Shop)
        .join(other, true())
        .outerjoin(Currency, and_(Currency.code == "E", other.tenant == Shop.tenant)),
        "outer join",
    ),
    "a name of a group that a table has too": (
        select((Shop.size % 2).label("size"), func.count()).group_by("size"),
        "may mean a column",
    ),
    "an aggregate within a window": (
        select(func.sum(func.count()).over(partition_by=Shop.tenant)).select_from(Shop),
        "no group and no aggregate",
    ),
    "a table as a column": (select(Shop.__table__).select_from(Shop), "no column and no model"),
    "HAVING that compares times": (
        select(Shop.city).group_by(Shop.city).having(func.max(Shop.opened) == datetime(2024, 1, 1)),  # noqa: DTZ001
        "HAVING",
    ),
    "a constant order": (select(Shop.id).order_by(true(), Shop.id), "a constant"),
    "a function in FROM": (
        select(func.json_each("[1]").table_valued("value").c.value, Shop.id),
        "neither a sharded table nor a reference table",
    ),
    "a text for a time": (select(Shop.id).where(Shop.opened > cast("now", DateTime)), "pass a datetime"),
    "groups of floats of four bytes": (
        select(func.count()).select_from(Shop).group_by(cast(Shop.score, REAL)),
        "cast()",
    ),
    "times of a day with a zone": (
        select(func.count()).select_from(Shop).group_by(cast(Shop.opened, Time(timezone=True))),
        "cast()",
    ),
    "the order of a number that may be a float": (
        select(Shop.id).order_by(Shop.price + func.date_part("epoch", Shop.opened), Shop.id),
        "cast()",
    ),
    "a count with a type": (select(func.count(Shop.id, type_=Boolean)), "another type"),
    "the order of a function with a type": (
        select(Shop.id).order_by(func.coalesce(Shop.size, 0, type_=Boolean), Shop.id),
        "cast()",
    ),
    "HAVING with a value of another type": (
        select(Shop.city).group_by(Shop.city).having(func.max(Shop.size) == literal(1.4, Integer)),
        "HAVING",
    ),
    "a name that two tables have": (
        select(Shop.id, Order.amount).join(Order, Order.shop_id == Shop.id).order_by("id"),
        "may stand for several columns",
    ),
    "a name that is the long name of another column": (
        select(Shop.size.label("shop_score"), Shop.score).order_by("shop_score"),
        "may stand for several columns",
    ),
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


def test_parts_of_groups_and_keys_of_an_order_leave_the_joins_as_they_are():
    joined = select(Shop.city, func.sum(Order.amount), func.count(Currency.code)).outerjoin(Shop.orders)
    grouped = joined.outerjoin(Currency, Currency.code == Order.currency).group_by(Shop.city)
    assert "FROM shop LEFT OUTER JOIN orders" in f"{plan(grouped).statement}"
    ordered = select(Shop.id).join(Order, Order.shop_id == Shop.id).join(other, other.tenant == Shop.tenant)
    assert "FROM shop JOIN orders" in f"{plan(ordered.order_by(other.size, Order.id)).statement}"


@pytest.mark.skipif(not hasattr(select(Shop.id), "_params"), reason="SQLAlchemy 2.0 writes the values into the tree")
def test_values_beside_the_statement_are_refused():
    with pytest.raises(NotScatterable, match="params"):
        plan(select(Shop.id).where(Shop.size == bindparam("size", 1)).params(size=2))


def test_groups_and_orders_may_name_columns_of_the_result():
    half = (Shop.size % 2).label("half")
    statement = select(half, func.count().label("shops")).group_by("half").order_by(desc("shops"), "half")
    assert [True, False] == [key.is_descending for key in plan(statement).order]


def test_a_name_that_one_table_has_is_that_column():
    assert 1 == len(plan(select(Shop.size).order_by("size")).order)


def test_a_value_of_having_is_a_float_where_it_is_sent_as_one():
    statement = select(Shop.city).group_by(Shop.city).having(func.max(Shop.score) == Decimal("0.1"))
    having = plan(statement, "sqlite").groups.having
    assert having((None, 0.1))


def test_columns_of_two_aliases_are_two_groups():
    statement = select(other.size, another.size, func.count()).join(another, another.tenant == other.tenant)
    found = plan(statement.group_by(other.size, another.size)).groups
    assert [(0,), (1,), (2,)] == [each.places for each in found.outputs]
    assert [(2,)] == [
        (each.place,) for each in plan(statement.with_only_columns(other.size, other.id).order_by(another.size)).order
    ]


def test_the_order_of_groups_on_one_shard_each_is_checked():
    by_tenant = select(Shop.tenant).group_by(Shop.tenant)
    with pytest.raises(NotScatterable, match="Float"):
        plan(by_tenant.order_by(func.sum(Shop.price)), "sqlite")
    assert 1 == len(plan(by_tenant.order_by(func.avg(Shop.size))).order)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [([[1.0, None], [2, 0]], 1.0), ([[1.0, None], [2, 1]], None), ([[inf, -inf], [1, 1]], None), ([[None], [0]], None)],
)
def test_a_sum_of_sqlite_without_a_value_is_null(parts, expected):
    price = cast(Shop.price, Float)
    [output] = plan(select(func.sum(price)), "sqlite").groups.outputs
    assert expected == output.combine(*parts)


def test_an_hour_that_the_clocks_run_twice_has_two_times():
    first = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)
    assert alike([first]) != alike([second])
    assert sort_key([OrderKey(place=0)])([first]) < sort_key([OrderKey(place=0)])([second])
    falling = sort_key([OrderKey(place=0, is_descending=True)])
    assert falling([second]) < falling([first])


def test_each_shard_sends_the_rows_of_the_limit_and_of_the_offset():
    found = plan(select(Shop.size).order_by(Shop.size.desc()).limit(10).offset(30))
    text_of_shard = f"{found.statement.compile(compile_kwargs={'literal_binds': True})}"
    assert "LIMIT 40" in text_of_shard
    assert "OFFSET" not in text_of_shard
    assert (10, 30) == (found.limit, found.offset)


def test_no_shard_sends_more_rows_than_the_caller_takes():
    found = plan(select(Shop.size).order_by(Shop.size).offset(7)).at_most(100)
    assert "LIMIT 108" in f"{found.statement.compile(compile_kwargs={'literal_binds': True})}"
    limited = plan(select(Shop.size).limit(3))
    assert limited is limited.at_most(1)


def test_decimals_of_sqlite_are_compared_as_the_floats_that_it_keeps():
    with pytest.raises(NotScatterable, match="Float"):
        plan(select(Shop.price, func.count()).group_by(Shop.price), "sqlite")
    as_float = cast(Shop.price, Float)
    assert plan(select(as_float, func.count()).group_by(as_float), "sqlite").groups


@pytest.mark.parametrize("written", [select(Shop.city), select(cast(Shop.city, String)), select(func.lower(Shop.city))])
def test_a_collation_of_a_column_is_found_in_expressions(written, monkeypatch):
    monkeypatch.setattr(Shop.__table__.c.city.type, "collation", "NOCASE")
    with pytest.raises(NotScatterable, match="NOCASE"):
        plan(written.distinct(), "sqlite")


@pytest.mark.parametrize(("dialect", "name"), [("postgresql", "C"), ("sqlite", "BINARY")])
def test_text_has_an_order_by_its_bytes(dialect, name):
    statement = select(Shop.city).order_by(collate(Shop.city, name))
    assert 1 == len(plan(statement, dialect).order)


@pytest.mark.parametrize(("dialect", "expected"), [("postgresql", [False, True]), ("sqlite", [True, False])])
def test_null_has_the_place_that_the_database_gives_it(dialect, expected):
    found = plan(select(Shop.size, Shop.score).order_by(Shop.size, Shop.score.desc()), dialect)
    assert expected == [key.has_nulls_first for key in found.order]


def test_an_explanation_has_the_statement_of_a_shard_and_the_steps_after_it():
    count = func.count()
    statement = select(Shop.city, count).group_by(Shop.city).having(count > 2).order_by(count.desc()).limit(3)
    found = shards.explain(statement, base=Base, dialect="sqlite")
    assert "SELECT shop.city AS apportion_0, count(*) AS apportion_1" in found
    assert "combined" in found
    assert "HAVING is applied" in found
    assert "sorted: column 3 DESC NULLS LAST" in found
    assert "LIMIT 3" in found


def test_an_explanation_of_another_dialect_is_refused():
    with pytest.raises(UnknownOption, match="dialect"):
        shards.explain(select(Shop.id), base=Base, dialect="mysql")
