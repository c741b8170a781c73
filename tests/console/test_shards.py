"""`apportion shards`: a set is made, and keys are found in it; each mistake is told in one line with the next step."""

import json
import sqlite3
from contextlib import closing
from uuid import UUID

import pytest
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion import shards
from apportion.console.shards.options import key_in, text_key
from apportion.errors import InvalidInput
from tests.console.running import run

MODELS = """
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from apportion import shards

class Base(DeclarativeBase):
    pass

class Place(shards.Sharded, Base):
    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
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
    del made["survey"]
    with_rows = [each | {"rows": 0} for each in made["shards"]]
    assert made | {"command": "shards status", "shards": with_rows} == told("status", URL, "world", folder=folder)
    routes = told("route", URL, "world", "FR", "DE", folder=folder)["routes"]
    assert ["FR", "DE"] == [each["key"] for each in routes]
    assert all(0 <= each["slot"] < 64 and each["shard"] in ("one", "two") for each in routes)


def test_a_key_is_pinned_once_and_shown_in_lines(folder):
    told("init", URL, "world", *SHARDS, "--models", "shop_models:Base", "--slots", "64", folder=folder)
    pin = ("pin", URL, "world", "FR", "--models", "shop_models:Base")
    [made] = told(*pin, folder=folder)["pinned"]
    assert ("FR", 64, True) == (made["key"], made["slot"], made["is_new"])
    [route] = told("route", URL, "world", "FR", folder=folder)["routes"]
    assert (64, made["shard"]) == (route["slot"], route["shard"])
    lines = run("shards", *pin, folder=folder).stdout.decode().splitlines()
    assert ["FR", "64", made["shard"], "before"] == lines[-1].split()


def test_a_word_is_a_key_of_the_type_that_the_models_have():
    assert (5, "5") == (key_in(_base_of(int), "5"), key_in(_base_of(str), "5"))
    assert UUID(int=5) == key_in(_base_of(UUID), f"{UUID(int=5)}")
    with pytest.raises(InvalidInput, match=r"^key is 'FR', expected a value of int"):
        key_in(_base_of(int), "FR")
    with pytest.raises(InvalidInput, match=r"^--models is 'float', expected models with shard keys of one column"):
        key_in(_base_of(float), "5")


@pytest.mark.parametrize("word", ["5", "-7", f"{UUID(int=5)}"])
def test_a_word_that_could_be_a_number_is_no_text_without_the_models(word):
    with pytest.raises(InvalidInput, match=r"^key is '"):
        text_key(word)
    assert "FR" == text_key("FR")


def test_route_takes_the_type_of_a_key_from_the_models(folder):
    told("init", URL, "world", *SHARDS, "--models", "shop_models:Base", "--slots", "64", folder=folder)
    [plain] = told("route", URL, "world", "FR", folder=folder)["routes"]
    assert [plain] == told("route", URL, "world", "FR", "--models", "shop_models:Base", folder=folder)["routes"]
    done = run("shards", "route", URL, "world", "5", folder=folder)
    assert (1, True) == (done.returncode, b"--models MODULE:Base" in done.stderr)
    assert told("route", URL, "world", "5", "--models", "shop_models:Base", folder=folder)["routes"]


def _base_of(kind):
    """Return a base with one model, whose shard key has a type."""

    class OtherBase(DeclarativeBase):
        pass

    class Town(shards.Sharded, OtherBase):
        __tablename__ = "town"
        __shard_key__ = "key"
        id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
        key: Mapped[kind]

    return OtherBase


def test_a_check_reports_keys_and_obstacles_and_makes_nothing(folder):
    with closing(sqlite3.connect(folder / "one.db")) as connection, connection:
        connection.execute("CREATE TABLE place (id INTEGER PRIMARY KEY, country VARCHAR)")
        connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO place (country) VALUES (?)", [("FR",), ("FR",), ("FR",), ("DE",)])
    before = (folder / "one.db").read_bytes()
    init = ("init", URL, "world", *SHARDS, "--models", "shop_models:Base", "--slots", "64")
    told_of = told(*init, "--check", folder=folder)
    (place,) = told_of["survey"]["tables"]
    assert (4, 2, {"key": "FR", "rows": 3}) == (place["rows"], place["keys"], place["largest"][0])
    assert [("note", "undeclared")] == [(each["table"], each["kind"]) for each in told_of["survey"]["obstacles"]]
    shown = run("shards", *init, "--check", folder=folder).stdout.decode()
    assert "place: largest keys FR 75%, DE 25%" in shown
    assert "note: neither sharded nor a reference. Its rows stay on one shard." in shown
    assert shown.endswith("shards init: world: shard one has the rows, 1 obstacles to a move; nothing was made\n")
    assert before == (folder / "one.db").read_bytes()
    assert not {"two.db", "control.db"} & {path.name for path in folder.iterdir()}
    made = told(*init, folder=folder)
    assert {"one": 64, "two": 0} == {each["id"]: each["slots"] for each in made["shards"]}


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
        (("pin", URL, "world", "FR", "--models", "shop_models:Base"), "expected an existing store"),
        (("pin", URL, "world", "x" * 260, "--models", "shop_models:Base"), "key to pin is"),
    ],
)
def test_a_mistake_is_told_and_makes_nothing(folder, arguments, said):
    done = run("shards", *arguments, folder=folder)
    assert 1 == done.returncode
    assert said in done.stderr.decode()
    assert b"hush" not in done.stderr
    assert not {"one.db", "two.db"} & {path.name for path in folder.iterdir()}


def test_a_database_is_added_and_the_doctor_finds_a_fault(folder):
    told("init", URL, "world", *SHARDS[:2], "--models", "shop_models:Base", "--slots", "64", folder=folder)
    added = told("add", URL, "world", "two=sqlite:///two.db", "--models", "shop_models:Base", folder=folder)
    assert {"one": (64, 1.0), "two": (0, 0.0)} == {
        each["id"]: (each["slots"], each["weight"]) for each in added["shards"]
    }
    well = told("doctor", URL, "world", "--models", "shop_models:Base", "--whole", folder=folder)
    assert well["healthy"]
    with closing(sqlite3.connect(folder / "two.db")) as connection, connection:
        connection.execute("DROP TRIGGER apportion_place_insert")
    done = run("shards", "doctor", URL, "world", "--models", "shop_models:Base", folder=folder)
    assert 1 == done.returncode
    assert "triggers of two: Programs can write rows of other slots." in done.stdout.decode()
    assert b"errors 2\n" in done.stdout  # the other one: no move can begin
