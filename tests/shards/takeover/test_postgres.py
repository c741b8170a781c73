"""A database of PostgreSQL with rows becomes a shard beside writers, and a call that was cut off goes on."""

import asyncio
from functools import partial
from random import Random
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import select

import apportion
from apportion.shards.foundation import found
from apportion.shards.records import ShardRecord
from apportion.shards.slots import hash_slot
from apportion.shards.takeover import rows, takeover
from tests.shards.server import OWNER, as_role
from tests.shards.takeover.old_file import COUNTRIES, OLD, SET, SLOTS, OldBase, OldFile, Town
from tests.stores.rigs.postgres import SECRET

pytestmark = pytest.mark.live


class OldServer(OldFile):
    """The tables of `OldFile` on a server."""

    def __init__(self, rig, folder, towns=40):
        self.rig, self.folder, self.url = rig, folder, f"sqlite:///{folder}/control.db"
        self.name = f"old_{uuid4().hex[:8]}"
        rig.sql(f"CREATE DATABASE {self.name}", database="postgres")
        self.sql(OLD)
        for n in range(towns):
            self.sql("INSERT INTO town (id, country) VALUES (?, ?)", (n, COUNTRIES[n % 5]))
            self.sql("INSERT INTO stamp VALUES (?, ?)", (COUNTRIES[n % 5], n))
        self.sql("INSERT INTO street SELECT n, n % 40 FROM generate_series(0, 79) n")
        self.sql("INSERT INTO house SELECT n, n % 80 FROM generate_series(0, 119) n")

    def sql(self, statement, values=()):
        host, port = self.rig.address()
        target = {"host": host, "port": port, "user": OWNER, "password": SECRET, "dbname": self.name}
        statement = statement.replace("slot IS NOT ", "slot IS DISTINCT FROM ")
        with psycopg.connect(**target, autocommit=True) as connection:
            words = statement.replace("%", "%%") if values else statement
            cursor = connection.execute(words.replace("?", "%s"), values or None)
            return cursor.fetchall() if cursor.description else []

    def take(self):
        host, port = self.rig.address()
        url = f"postgresql://${{SERVER_ROLE}}:${{SERVER_SECRET}}@{host}:{port}/{self.name}"
        asyncio.run(found(self.url, SET, {"one": ShardRecord(url=url)}, OldBase, SLOTS))


@pytest.fixture(autouse=True)
def _as_owner(as_member, monkeypatch):
    as_role(monkeypatch, OWNER)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 16)
    monkeypatch.setattr(takeover, "CHUNK_ROWS", 16)


@pytest.fixture
def make_old(rig, tmp_path):
    made = []

    def make():
        folder = tmp_path / f"{len(made)}"
        folder.mkdir()
        made.append(OldServer(rig, folder))
        return made[-1]

    yield make
    for each in made:
        rig.sql(f"DROP DATABASE {each.name} WITH (FORCE)", database="postgres")


def checked(old):
    """Check the rows, and the columns, constraints and triggers around them."""
    assert [] == old.wrong()
    nullable = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'slot' AND is_nullable = 'YES'"
    assert [(0,)] == old.sql(f"{nullable} AND table_schema = 'public'")
    valid = "SELECT count(*), bool_and(convalidated) FROM pg_constraint WHERE conname LIKE 'apportion%'"
    assert [(2, True)] == old.sql(valid), "the foreign keys of two children, and no CHECK"
    identity = (
        "SELECT count(*) FROM pg_class WHERE relreplident = 'i' AND relname IN ('town', 'street', 'house', 'stamp')"
    )
    assert [(4,)] == old.sql(identity)
    left = "SELECT count(*) FROM pg_trigger WHERE tgname ~ '_rekey|_orphan|apportion_.*_delete'"
    assert [(0,)] == old.sql(left)


def test_each_row_has_its_slot_and_the_program_goes_on_in_pinned_sessions(make_old):
    old = make_old()
    old.take()
    old.take()
    checked(old)
    with apportion.sync.open_shards(old.url, SET, base=OldBase) as router, router.session("FR") as session:
        assert 8 == len(session.scalars(select(Town)).all())
    for statement in (
        "INSERT INTO town (id, country) VALUES (900, 'FR')",
        f"INSERT INTO street (id, town_id, slot) VALUES (900, 1, {hash_slot('FR', SLOTS)})",
        "UPDATE street SET town_id = town_id + 1",
    ):
        with pytest.raises(psycopg.Error):
            old.sql(statement)
    assert [] == old.wrong()


@pytest.mark.parametrize("seed", range(3))
def test_writers_that_know_of_no_slot_leave_no_row_with_a_wrong_one(make_old, monkeypatch, seed):
    old, plain, random = make_old(), takeover.within, Random(seed)

    def within(engine, shard, act):
        if not old.sql("SELECT 1 FROM pg_tables WHERE tablename = 'shard_meta'"):
            for _ in range(random.randrange(3)):
                _written(old, random)
        return plain(engine, shard, act)

    monkeypatch.setattr(takeover, "within", within)
    old.take()
    checked(old)


def _written(old, random):
    town, other, street = random.randrange(40), random.randrange(40), random.randrange(80)
    country, new = random.choice(COUNTRIES), random.randrange(1000, 10**9)
    random.choice(
        [
            partial(old.sql, "UPDATE town SET country = ? WHERE id = ?", (country, town)),
            partial(old.sql, "INSERT INTO town (id, country) VALUES (?, ?)", (new, country)),
            partial(old.sql, "UPDATE street SET town_id = ? WHERE id = ?", (other, street)),
            partial(old.sql, "UPDATE house SET street_id = ? WHERE id = ?", (street, random.randrange(120))),
            partial(old.sql, "INSERT INTO street (id, town_id) VALUES (?, ?)", (new, town)),
            partial(old.sql, "DELETE FROM house WHERE id = ?", (random.randrange(120),)),
            partial(old.sql, "UPDATE stamp SET country = ? WHERE year = ?", (country, other)),
        ]
    )()


def test_a_takeover_that_was_cut_off_goes_on(make_old, monkeypatch):
    plain, begun, stopped = takeover.reached, [], True
    for stop in range(0, 60, 7):
        old = make_old()
        begun.clear()

        def cut(shard, act, stop=stop):
            begun.append(act)
            if len(begun) == stop + 1:
                raise KeyboardInterrupt
            return plain(shard, act)

        monkeypatch.setattr(takeover, "reached", cut)
        try:
            old.take()
        except KeyboardInterrupt:
            stopped = True
        monkeypatch.setattr(takeover, "reached", plain)
        old.take()
        checked(old)
    assert stopped
