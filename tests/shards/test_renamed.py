"""A shard key may have another name in the model than in its table; a statement may use both, and sets neither."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import bindparam, insert, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import apportion
from apportion.errors import CrossShard
from apportion.shards import Sharded, admin

SET = "renamed"


class Base(DeclarativeBase):
    pass


class Place(Sharded, Base):
    __tablename__ = "place"
    __shard_key__ = "nation"
    id: Mapped[str] = mapped_column(primary_key=True)
    nation: Mapped[str] = mapped_column("country")


@pytest.fixture
def router(tmp_path):
    url = f"sqlite:///{tmp_path}/control.db"
    asyncio.run(admin.init(url, SET, {"one": f"sqlite:///{tmp_path}/one.db"}, base=Base, slots=64))
    with apportion.sync.open_shards(url, SET, base=Base) as router:
        router.run("FR", lambda session: session.add(Place(id="a", nation="FR")))
        yield router


UPSERT = sqlite.insert(Place).on_conflict_do_update(index_elements=["slot", "id"], set_={"country": "DE"})
WRONG = {
    "attribute": lambda s: s.execute(update(Place).values(nation="DE")),
    "attribute of the class": lambda s: s.execute(update(Place).values({Place.nation: "DE"})),
    "column": lambda s: s.execute(update(Place).values({"country": "DE"})),
    "column of the table": lambda s: s.execute(update(Place).values({Place.__table__.c.country: "DE"})),
    "ordered": lambda s: s.execute(update(Place).ordered_values(("nation", "DE"))),
    "parameter": lambda s: s.execute(update(Place), {"nation": "DE"}),
    "bound": lambda s: s.execute(update(Place).values(nation=bindparam("x")), {"x": "DE"}),
    "query": lambda s: s.query(Place).update({"nation": "DE"}),
    "upsert": lambda s: s.execute(UPSERT, [{"id": "a", "nation": "FR"}]),
    "insert": lambda s: s.execute(insert(Place), [{"id": "b", "nation": "DE"}]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_shard_key_is_set_under_neither_of_its_names(router, tmp_path, wrong):
    with pytest.raises(CrossShard):
        router.run("FR", WRONG[wrong])
    with closing(sqlite3.connect(tmp_path / "one.db")) as connection:
        assert [("a", "FR")] == connection.execute("SELECT id, country FROM place").fetchall()
