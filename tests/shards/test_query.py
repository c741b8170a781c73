"""Query: one statement of SQL on each shard, which reads only rows of owned slots, and cannot write."""

import asyncio
import json

import pytest

from apportion import sync
from apportion.errors import InvalidInput
from apportion.shards import admin
from tests.console.running import run
from tests.shards.sample import SET, Base, Place
from tests.shards.server import OWNER, as_role

HIDDEN = [
    ("", ""), ("", " -- {owned}"), ("", " /* {owned} */"), ("", " where country <> '{owned}'"),
    (' AS "{owned}"', ""), (" /* it's */", " /* {owned} */ --'"),
]  # fmt: skip
HIDDEN_IN = {
    "sqlite": [(" AS [{owned}]", ""), (" AS `{owned}`", ""), ("", " /* {owned}")],
    "postgresql": [
        (", $$ {owned} $$", ""), (", $a$ '{owned} $a$", ""), (", E'\\' {owned} '", ""), (" /* /* */ {owned} */", ""),
        (", array['x]', '{owned}']", ""),
    ],
}  # fmt: skip
"""Parts of a statement in which the condition is a literal, a name or a comment."""

COUNT = "select count(*) from place where {owned}"


@pytest.fixture(scope="module")
def places(kind, make_set):
    """A set of two shards with places of twelve countries."""
    places = make_set(kind, shards=("one", "two"))
    with pytest.MonkeyPatch.context() as patched:
        as_role(patched, OWNER)
        with sync.open_shards(places.url, SET, base=Base) as router:
            for number in range(12):
                place = Place(country=f"C{number}", visits=number)
                router.run(place.country, lambda session, place=place: session.add(place))
    return places


def query(places, statement, **options):
    return asyncio.run(admin.query(places.url, SET, statement, **options))


def test_each_shard_answers_for_its_own_rows(places):
    found = query(places, COUNT)
    assert ["one", "two"] == [each.shard for each in found]
    assert 12 == sum(each.rows[0][0] for each in found)
    assert query(places, "select count(*) from place") == query(places, COUNT)


@pytest.mark.parametrize(
    "statement",
    [
        "delete from place",
        "update place set visits = 0",
        "  ; select 1",
        "",
        7,
        "select 1; delete from place",
        "select 1; commit; delete from place",
        "select nothing from nowhere",
        "select 1 \0; delete from place",
        "select '\ud800'",
    ],
)
def test_any_other_statement_is_refused_and_changes_nothing(places, statement):
    before = query(places, COUNT)
    with pytest.raises(InvalidInput, match="statement"):
        query(places, statement)
    assert before == query(places, COUNT)


def test_a_statement_with_a_write_inside_is_refused(places):
    with pytest.raises(InvalidInput, match="statement"):
        query(places, "with gone as (delete from place returning id) select count(*) from gone")
    assert 12 == sum(each.rows[0][0] for each in query(places, COUNT))


def test_too_many_rows_are_refused(places):
    with pytest.raises(InvalidInput, match="more than 1 rows"):
        query(places, "select visits from place", max_rows=1)
    with pytest.raises(InvalidInput, match="max_rows"):
        query(places, COUNT, max_rows=0)


def test_rows_that_a_move_has_left_are_not_read(kind, make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    places = make_set(kind, shards=("one", "two"))
    with sync.open_shards(places.url, SET, base=Base) as router:
        router.run("FR", lambda session: session.add(Place(country="FR", visits=1)))
        source, slot = router.shard("FR"), router.slot("FR")
    target = "one" if source == "two" else "two"
    plan = asyncio.run(admin.plan(places.url, SET, slots=[slot], to=target))
    asyncio.run(admin.apply(places.url, SET, plan))
    counts = {each.shard: each.rows[0][0] for each in query(places, COUNT)}
    assert {source: 0, target: 1} == counts
    assert counts == {
        each.shard: each.rows[0][0] for each in query(places, "select count(*) from place p where {p.owned}")
    }
    for part, tail in (*HIDDEN, *HIDDEN_IN[kind]):
        with pytest.raises(InvalidInput, match=r"one with the condition \{owned\}"):
            query(places, f"select count(*){part} from place{tail}")
        shown = query(places, f"select count(*){part} from place where {{owned}}")
        assert counts == {each.shard: each.rows[0][0] for each in shown}


def test_the_command_prints_the_rows_of_each_shard_under_its_id(places, tmp_path):
    shown = run("shards", "query", places.url, SET, COUNT, folder=tmp_path)
    assert (0, True) == (shown.returncode, b"rows of 2 shards" in shown.stdout)
    told = run("shards", "query", places.url, SET, COUNT, "--json", folder=tmp_path)
    assert ["one", "two"] == [each["id"] for each in json.loads(told.stdout)["shards"]]
