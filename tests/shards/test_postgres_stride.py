"""Numbers of sequences on several shards: no two shards give out the same one, whatever they gave out before."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import URL, Identity, MetaData, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import apportion
from apportion.errors import InvalidInput
from apportion.shards import Sharded, admin
from apportion.shards.models import tables_of
from apportion.shards.postgres.stride import STRIDE, GivenKey, free_residue, given_keys, set_stride, stride_shards
from tests.shards.server import OWNER, as_role
from tests.stores.rigs.postgres import SECRET


class Counted(DeclarativeBase):
    metadata = MetaData()


class Order(Sharded, Counted):
    __tablename__ = 'or"der %s'
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(Identity(), unique=True)
    country: Mapped[str]


class Bill(Sharded, Counted):
    __tablename__ = "bill"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]


TABLES = tables_of(Counted)
INSERT = 'INSERT INTO "or""der %%s" (country, slot) VALUES (\'FR\', 5) RETURNING id, number'


@pytest.fixture
def engines(make_set):
    """Two databases with the tables, which are no shards: the first has rows."""
    made = make_set("postgresql")
    host, port = made.rig.address()
    target = {"username": "postgres", "password": SECRET, "host": host, "port": port}
    found = [create_engine(URL.create("postgresql+psycopg", **target, database=made.name(s))) for s in made.shards]
    for engine in found:
        Counted.metadata.create_all(engine)
    given(found[0], 10)
    yield found
    for engine in found:
        engine.dispose()


class Counter(DeclarativeBase):
    pass


class Ticket(Sharded, Counter):
    __tablename__ = "ticket"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True)
    country: Mapped[str]


@pytest.mark.live
def test_a_set_with_a_stride_gives_each_row_a_number_of_its_own_also_on_a_shard_that_joins(
    make_set, monkeypatch, tmp_path
):
    made = make_set("postgresql", shards=("one", "two", "three"))
    for shard in made.shards:
        made.sql(shard, "DROP SCHEMA apportion CASCADE")
    as_role(monkeypatch, OWNER)
    url, places = f"sqlite:///{tmp_path}/c.db", {shard: each.url for shard, each in made.shards.items()}
    two = {shard: places[shard] for shard in ("one", "two")}
    with pytest.raises(InvalidInput, match="--stride"):
        asyncio.run(admin.init(url, "tickets", two, base=Counter))
    asyncio.run(admin.init(url, "tickets", two, base=Counter, stride=True))
    with apportion.sync.open_shards(url, "tickets", base=Counter) as router:
        for key in map(str, range(12)):
            with router.session(key) as session:
                session.add_all([Ticket(country=key) for _ in range(3)])
                session.commit()
    asyncio.run(admin.add(url, "tickets", {"three": places["three"]}, base=Counter, stride=True))
    new = made.sql("three", "SELECT nextval('ticket_id_seq') FROM generate_series(1, 9)")
    rows = [row[0] for shard in two for row in made.sql(shard, "SELECT id FROM ticket")]
    numbers = [*rows, *(row[0] for row in new)]
    assert (45, 45) == (len(numbers), len({*numbers}))
    assert {0, 1, 2} == {number % STRIDE for number in numbers}


def test_a_stride_on_sqlite_is_refused():
    with pytest.raises(InvalidInput, match="a database of PostgreSQL"):
        asyncio.run(admin.init("sqlite:///absent.db", "x", {"one": "sqlite:///a.db"}, base=Counter, stride=True))


def given(engine, count):
    with engine.begin() as connection:
        return [tuple(connection.exec_driver_sql(INSERT).one()) for _ in range(count)]


def keys(engine):
    with engine.connect() as connection:
        return given_keys(connection, TABLES)


def strided(engines):
    return stride_shards({f"shard-{place}": engine for place, engine in enumerate(engines)}, TABLES)


@pytest.mark.live
def test_each_column_with_a_sequence_is_found_and_none_without(engines):
    assert [("id", 10, None), ("number", 10, None)] == [(key.column, key.last, key.residue) for key in keys(engines[0])]
    assert [0, 0] == [key.last for key in keys(engines[1])]


@pytest.mark.live
def test_no_two_shards_give_out_a_number_twice(engines):
    old = {(place, number) for place in (0, 1) for number in range(1, 11)}
    strided(engines)
    fresh = [(place, row[place]) for engine in engines for row in given(engine, 100) for place in (0, 1)]
    assert len(fresh) == len({*fresh} - old)
    assert [{0}, {1}] == [{key.residue for key in keys(engine)} for engine in engines]


@pytest.mark.live
def test_a_stride_that_is_there_stays_and_another_residue_is_refused(engines):
    assert ("shard-0", "shard-1") == strided(engines)
    before = [given(engine, 1) for engine in engines]
    assert () == strided(engines)
    after = [given(engine, 1) for engine in engines]
    assert [STRIDE] * 4 == [b - a for x, y in zip(before, after, strict=True) for a, b in zip(*x, *y, strict=True)]
    with engines[0].begin() as connection, pytest.raises(InvalidInput, match="residue of"):
        set_stride(connection, TABLES, 1, {})


@pytest.mark.live
def test_a_writer_that_inserts_meanwhile_gets_no_number_that_another_shard_gives_out(engines):
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [given(engines[0], 1)[0] for _ in range(200)])
        strided(engines)
        first = writing.result(60)
    assert not {row[0] for row in first} & {row[0] for row in given(engines[1], 300)}


@pytest.mark.live
def test_a_shard_that_joins_gets_a_free_residue_and_begins_above_all_numbers(engines):
    first, second = engines
    assert ("shard-0",) == strided([first])
    given(first, 20)
    assert ("shard-1",) == strided(engines)
    highest = max(key.last for key in keys(first))
    assert {(1, True)} == {(key.residue, key.last + STRIDE > highest) for key in keys(second)}


@pytest.mark.live
def test_a_stride_that_is_rolled_back_changes_nothing(engines):
    with engines[0].connect() as connection:
        set_stride(connection, TABLES, 7, {})
        connection.rollback()
    assert [(11, 11)] == given(engines[0], 1)


def test_a_column_that_cannot_hold_the_next_number_is_refused():
    key = GivenKey(table="place", column="id", sequence="s", last=2**31 - 2, residue=None, most=2**31 - 1)
    with pytest.raises(InvalidInput, match="to bigint first"):
        key.after(key.last, 0)


def test_sixty_four_shards_have_residues():
    assert 63 == free_residue(range(63))
    with pytest.raises(InvalidInput, match="at most 64"):
        free_residue(range(64))
