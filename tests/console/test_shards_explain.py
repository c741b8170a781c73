"""`apportion shards explain`: how a statement of the program would be split, for the databases that the set has."""

import asyncio
import json

import pytest

from apportion.shards.records import SetKeys, ShardRecord
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.console.running import refused, run
from tests.shards.sample import SET, Files

REPORTS = """
from sqlalchemy import func, select, text
from tests.shards.sample import Place

best = select(Place.country, func.count()).group_by(Place.country).order_by(func.count().desc()).limit(3)
split = select(func.count(Place.visits.distinct()))
words = "select 1"
raw = text("select 1")
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "shop_reports.py").write_text(REPORTS)
    monkeypatch.syspath_prepend(tmp_path)
    return Files(tmp_path)


def explain(files, *arguments, models="tests.shards.sample:Base"):
    words = ("shards", "explain", files.url, SET, *arguments, "--models", models)
    return run(*words, folder=files.folder)


def test_the_statement_of_each_shard_and_the_merge_are_shown(files):
    done = explain(files, "shop_reports:best")
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.decode().splitlines()
    assert ["Each shard runs:", "  SELECT place.country, count(*) AS count_1"] == lines[:2]
    assert "They are merged in order: column 2 DESC NULLS LAST." in lines
    assert "shards explain: shop_reports:best can be answered by the 2 shards of world, in sqlite" == lines[-1]
    found = json.loads(explain(files, "shop_reports:best", "--json").stdout)
    assert ("sqlite", lines[:-2]) == (found["dialect"], found["lines"])


def test_a_statement_without_an_answer_is_refused_with_the_reason(files):
    message = refused(explain(files, "shop_reports:split"))
    assert message.startswith("error: the statement has no answer over all shards: ")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("select 1", "STATEMENT is 'select 1', expected a module and a name in it"),
        ("shop_reports", "STATEMENT is 'shop_reports', expected a module and a name in it"),
        ("shop_reports:worst", "STATEMENT is 'shop_reports:worst', expected the place of a select()"),
        ("shop_reports:words", "STATEMENT is 'shop_reports:words', expected the place of a select()"),
        ("shop_reports:raw", "STATEMENT is 'shop_reports:raw', expected the place of a select()"),
        ("shop_nowhere:best", "STATEMENT is 'shop_nowhere', expected a module that can be imported"),
    ],
)
def test_a_place_without_a_statement_is_named(files, place, message):
    assert message in refused(explain(files, place))


def test_databases_of_two_kinds_are_refused(files):
    async def put():
        store = await connect(files.url)
        try:
            record = ShardRecord(url="postgresql://ann@nowhere/shop").encode()
            key = SetKeys(SET).shard("three")
            await store.commit(when=[api.Absent(key=key)], puts=[api.Put(key=key, value=record)])
        finally:
            await store.close()

    asyncio.run(put())
    assert "the shards are of several kinds: postgresql, sqlite" in refused(explain(files, "shop_reports:best"))
