"""Only keys whose order is the same in Python and in each database may have ranges."""

from uuid import UUID

import pytest
from sqlalchemy import Enum, String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.errors import InvalidInput
from apportion.shards import Sharded, admin
from apportion.shards.admin.keys.key_order import check_at, check_encoding, check_ordered
from tests.shards.ranges.sample import Base, Numbers
from tests.shards.sample import Base as WithTwoColumns


def base_with(*types, key=None):
    """Return a base with a model for each type of a key."""

    class Made(DeclarativeBase):
        pass

    for number, kind in enumerate(types):
        members = {
            "__tablename__": f"made_{number}",
            "__shard_key__": "name",
            "__annotations__": {"id": Mapped[int], "name": Mapped[key or str]},
            "id": mapped_column(primary_key=True),
            "name": mapped_column(kind),
        }
        type(f"Made{number}", (Sharded, Made), members)
    return Made


def test_text_and_integers_have_an_order():
    assert [str, int] == [check_ordered(Base), check_ordered(Numbers)]
    assert ["m", 5] == [check_at(Base, "m"), check_at(Numbers, 5)]
    for base, at in ((Base, 5), (Numbers, "5"), (Base, UUID(int=1))):
        with pytest.raises(InvalidInput, match="boundary of the split"):
            check_at(base, at)


def test_other_keys_are_refused_before_a_set_is_made(tmp_path):
    from sqlalchemy import Integer, Uuid

    for base, said in (
        (WithTwoColumns, "one column of text or integers"),
        (base_with(Uuid(), key=UUID), "one column of text or integers"),
        (base_with(Enum("a", "b")), "one column of text or integers"),
        (base_with(String(), Integer()), "keys of one kind"),
    ):
        with pytest.raises(InvalidInput, match=said) as refused:
            check_ordered(base)
        assert "leave out --by ranges" in refused.value.hint


def test_text_in_another_encoding_is_refused(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/one.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA encoding = 'UTF-16le'")
        with pytest.raises(InvalidInput, match="encoding of shard one is 'UTF-16le', expected UTF-8"):
            check_encoding(connection, "one")
    with create_engine("sqlite://").connect() as connection:
        check_encoding(connection, "one")


@pytest.mark.parametrize("by", ["hash", "lists", "ranges"])
def test_a_set_is_made_by_each_rule(tmp_path, by):
    import asyncio

    url = f"sqlite:///{tmp_path}/control.db"
    shards = {each: f"sqlite:///{tmp_path}/{each}.db" for each in ("one", "two")}
    asyncio.run(admin.init(url, "world", shards, base=Base, by=by))
    table = asyncio.run(admin.status(url, "world")).table
    assert {"hash": 4096, "lists": 1, "ranges": 1}[by] == len(table.owners)
    assert (by == "ranges") == (table.ranges is not None)
    assert 1 == len({table.slot(each) for each in ("a", "z")}) or by == "hash"
