"""`apportion shards`: a set is made, and keys are found in it; each mistake is told in one line with the next step."""

import json

import pytest

from tests.console.running import run

MODELS = """
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from apportion import shards

class Base(DeclarativeBase):
    pass

class Place(shards.Sharded, Base):
    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True)
    country: Mapped[str]
"""
URL = "sqlite:///control.db"
SHARDS = ("--shard", "one=sqlite:///one.db", "--shard", "two=sqlite:///two.db")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop_models.py").write_text(MODELS)
    return tmp_path


def told(*arguments, folder):
    done = run("shards", *arguments, "--json", folder=folder)
    assert b"" == done.stderr
    return json.loads(done.stdout)


def test_a_set_is_made_once_and_tells_where_keys_lie(folder):
    init = ("init", URL, "world", *SHARDS, "--models", "shop_models:Base", "--slots", "64")
    made, again = (told(*init, folder=folder) for _ in range(2))
    assert made == again
    assert {"one": 32, "two": 32} == {each["id"]: each["slots"] for each in made["shards"]}
    assert made | {"command": "shards status"} == told("status", URL, "world", folder=folder)
    routes = told("route", URL, "world", "FR", "DE", folder=folder)["routes"]
    assert ["FR", "DE"] == [each["key"] for each in routes]
    assert all(0 <= each["slot"] < 64 and each["shard"] in ("one", "two") for each in routes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("init", URL, "world", "--shard", "one", "--models", "shop_models:Base"), "--shard is 'one', expected ID=URL"),
        (
            ("init", URL, "world", *SHARDS, *SHARDS, "--models", "shop_models:Base"),
            "--shard is 'one', expected each id once",
        ),
        (
            ("init", URL, "world", *SHARDS, "--models", "shop_models"),
            "--models is 'shop_models', expected a module and a name",
        ),
        (
            ("init", URL, "world", *SHARDS, "--models", "shop_models:Place"),
            "--models is 'shop_models:Place', expected the base",
        ),
        (
            ("init", URL, "world", *SHARDS, "--models", "shop_models:Base", "--slots", "100"),
            "slots is 100, expected a power",
        ),
        (("init", URL, "a/b", *SHARDS, "--models", "shop_models:Base"), "table name is 'a/b'"),
        (
            ("init", URL, "world", "--shard", "one=postgresql://ann:hush@host/db", "--models", "shop_models:Base"),
            "URL of a shard is '(not shown)'",
        ),
        (
            ("init", URL, "world", "--shard", "one=mysql://host/db", "--models", "shop_models:Base"),
            "database of a shard",
        ),
        (("status", URL, "world"), "expected an existing store"),
        (("route", URL, "world", "FR"), "expected an existing store"),
    ],
)
def test_a_mistake_is_told_and_makes_nothing(folder, arguments, said):
    done = run("shards", *arguments, folder=folder)
    assert 1 == done.returncode
    assert said in done.stderr.decode()
    assert b"hush" not in done.stderr
    assert not {"one.db", "two.db"} & {path.name for path in folder.iterdir()}
