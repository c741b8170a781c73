"""Pinned sessions: rows of one slot are read and written, and every other row is refused or not seen."""

import asyncio
import sqlite3
from uuid import uuid4

import pytest
from sqlalchemy import and_, delete, exists, func, insert, literal_column, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, aliased, joinedload, make_transient_to_detached, with_loader_criteria

import apportion
from apportion.errors import CrossShard, InvalidInput
from tests.shards.sample import SET, Base, Currency, Photo, Place, Visit

FR, DE = "FR", "DE"
READ_ONLY = "readonly|read-only"


@pytest.fixture(scope="module")
def files(make_set, kind):
    return make_set(kind, shards=("one",))


@pytest.fixture
def router(files):
    with apportion.sync.open_shards(files.url, SET, base=Base, session={"expire_on_commit": False}) as router:
        yield router
    for table in ("photo", "place", "visit"):
        files.sql("one", f"DELETE FROM {table}")


@pytest.fixture
def place(router):
    """A place in France with a photo; another place lies in Germany, on the same shard."""
    with router.session(DE) as session:
        session.add(Place(country=DE, visits=7))
        session.commit()
    with router.session(FR) as session:
        found = Place(country=FR, visits=1, photos=[Photo()])
        session.add(found)
        session.commit()
    return found


def test_a_flush_gives_each_row_its_slot_and_a_child_that_of_its_parent(router, place):
    assert router.slot(FR) == place.slot == place.photos[0].slot


def test_a_key_of_two_columns_decides_the_slot(router):
    with router.session(("FR", 2026)) as session:
        session.add(Visit(country=FR, year=2026))
        session.commit()
        assert [router.slot(("FR", 2026))] == session.scalars(select(Visit.slot)).all()


READS = {
    "select": lambda s: s.scalars(select(Place)).all(),
    "columns": lambda s: s.execute(select(Place.id, Place.visits)).all(),
    "query": lambda s: s.query(Place).all(),
    "alias": lambda s: s.scalars(select(aliased(Place))).all(),
    "subquery": lambda s: s.execute(select(select(Place).subquery())).all(),
    "cte": lambda s: s.execute(select(select(Place).cte())).all(),
    "join": lambda s: s.scalars(select(Place).outerjoin(Place.photos)).all(),
    "exists": lambda s: s.scalars(select(Place).where(Place.id.in_(select(Place.id)))).all(),
    "union": lambda s: s.execute(select(Place.id).union_all(select(Place.id).where(Place.visits > 99))).all(),
}


@pytest.mark.parametrize("read", READS)
def test_every_orm_read_sees_the_rows_of_the_slot_alone(router, place, read):
    with router.session(FR) as session:
        assert 1 == len(READS[read](session))


def test_counts_and_lookups_by_primary_key_see_the_slot_alone(router, place):
    with router.session(DE) as session:
        assert 1 == session.scalar(select(func.count()).select_from(Place))
        assert session.get(Place, place.id) is None
        assert [] == session.scalars(select(Photo)).all()


def test_an_orm_update_and_delete_touch_the_slot_alone(router, place):
    with router.session(FR) as session:
        assert 1 == session.execute(update(Place).values(visits=5)).rowcount
        assert 1 == session.execute(delete(Photo)).rowcount
        session.commit()
    with router.session(DE) as session:
        assert [7] == session.scalars(select(Place.visits)).all()


def test_an_update_that_the_session_is_to_evaluate_is_refused_alike_with_objects_and_without(router, place):
    several = update(Place).where(Place.id.in_(select(Photo.place_id))).values(visits=5)
    for holds in (False, True):
        with router.session(FR) as session:
            held = session.get(Place, place.id) if holds else None
            with pytest.raises(InvalidRequestError, match="Could not evaluate"):
                session.execute(several, execution_options={"synchronize_session": "evaluate"})
            assert (1, held) == (session.execute(several).rowcount, held)


def test_an_update_with_a_cte_tells_the_number_of_its_rows(router, place):
    found = select(Place.id).where(Place.visits > 0).cte()
    with router.session(FR) as session:
        assert 1 == session.execute(update(Place).where(Place.id.in_(select(found.c.id))).values(visits=5)).rowcount
        assert 1 == session.execute(delete(Photo).where(Photo.place_id.in_(select(found.c.id)))).rowcount


OTHER = aliased(Place)
OR = text("1 = 1 OR 1 = 1")


@pytest.mark.parametrize("condition", [OR, and_(OR, OR), or_(OR, OR)], ids=str)
def test_an_or_in_a_text_reaches_no_other_slot(router, place, condition):
    with router.session(FR) as session:
        assert [place.id] == session.scalars(select(Place.id).where(condition)).all()
        inner = select(Place.id).where(condition)
        for nested in (inner.subquery(), inner.cte(), inner.union(inner).subquery()):
            assert [place.id] == session.scalars(select(nested)).all()
            assert 1 == session.scalar(select(func.count()).select_from(nested))
        assert [place.id] == session.scalars(inner.union_all(select(Place.id).where(text("1 = 0")))).all()
        assert 1 == session.query(Place).filter(condition).count()
        assert 1 == session.execute(update(Place).where(condition).values(visits=5)).rowcount
        assert 0 == session.execute(delete(Photo).where(text("1 = 0"), condition)).rowcount
        assert 1 == session.query(Photo).filter(condition).delete()
        session.commit()
    with router.session(DE) as session:
        assert [7] == session.scalars(select(Place.visits)).all()


LOOSE = {
    "in ON": lambda: select(Place).join(Photo, text("1 = 1 OR 1 = 1")),
    "in ON beside a condition": lambda: select(Place).join(Photo, and_(text("1 = 1 OR 1 = 1"), Photo.slot > 0)),
    "of an alias": lambda: select(OTHER).join(Place, literal_column("1 = 1 OR 1 = 1")),
    "of a relationship": lambda: select(Photo).join(Photo.place.and_(text("1 = 1 OR 1 = 1"))),
    "of a loader": lambda: select(Place).options(joinedload(Place.photos.and_(text("1 = 1 OR 1 = 1")))),
    "of other criteria": lambda: select(Place).options(with_loader_criteria(Place, lambda _: literal_column("1 OR 1"))),
    "without a bind": lambda: select(Place).where(literal_column("1 = 1 OR 1 = 1")),
    "after NOT": lambda: select(Place).where(~literal_column("1 = 0 OR 1 = 0")),
    "as an operand": lambda: select(Place).where(Place.visits == text("1 OR 1 = 1")),
    "in a subquery": lambda: select(Place).where(Place.id.in_(select(Photo.place_id).where(literal_column("1 OR 1")))),
    "that orders": lambda: select(Place).where(literal_column("1 = 1 ORDER BY 1")),
    "with a comment": lambda: select(Place).where(text("1 = 1 -- ")),
    "that closes a parenthesis": lambda: select(Place).where(text("1 = 1) OR (1 = 1")),
    "of an update": lambda: update(Place).where(literal_column("1 = 1 OR 1 = 1")).values(visits=9),
    "of a delete": lambda: delete(Photo).where(~literal_column("1 = 0 OR 1 = 0")),
}


@pytest.mark.parametrize("loose", LOOSE)
@pytest.mark.parametrize("keys", [(FR,), (FR, "IT")], ids=len)
def test_text_that_would_end_the_criterion_of_the_slot_is_refused(files, router, place, loose, keys):
    before = files.sql("one", "SELECT id, visits FROM place ORDER BY id")
    with router.session(keys=keys) as session:
        with pytest.raises(InvalidInput, match=r"text in a condition is .*, expected no OR"):
            session.execute(LOOSE[loose]()).unique().all()
        session.rollback()
        found = session.execute(select(Place.id).join(Photo, text("(1 = 1 OR 1 = 1)"))).scalars().all()
        assert [place.id] == found
    assert before == files.sql("one", "SELECT id, visits FROM place ORDER BY id")


def _numbered():
    return func.first_value(Place.visits).over(order_by=Place.visits.desc())


UNREACHED = {
    "over": lambda: select(_numbered()),
    "filter": lambda: select(func.sum(Place.visits).filter(Place.visits > 0)),
    "and": lambda: select(and_(Place.visits == 7, Place.slot > 0)),
    "exists": lambda: select(exists().where(Place.visits == 7)),
    "exists beside": lambda: select(literal_column("1")).where(exists().where(Place.visits == 7)),
    "any": lambda: select(Place.photos.any(Photo.slot > 0)),
    "within a CTE": lambda: select(select(_numbered().label("most")).cte()),
    "within a union": lambda: select(Place.visits).union_all(select(_numbered())),
    "within a condition": lambda: select(Place.id).where(Place.visits < select(_numbered()).scalar_subquery()),
    "within an update": lambda: update(Place).values(visits=select(_numbered()).scalar_subquery()),
}


@pytest.mark.parametrize("unreached", UNREACHED)
def test_a_query_that_would_get_no_criterion_is_refused(files, router, place, unreached):
    """SQLAlchemy takes it for a statement of Core, which reads every slot."""
    with router.session(FR) as session:
        with pytest.raises(InvalidInput, match=r"one with columns of (Place|Photo) in expressions alone"):
            session.execute(UNREACHED[unreached]()).all()
        assert [1] == session.scalars(select(_numbered()).select_from(Place)).all()
        assert not session.scalar(select(select(Place).where(Place.visits == 7).exists()))


@pytest.mark.parametrize("keys", [(FR,), (FR, "IT")], ids=len)
def test_an_object_of_another_slot_is_not_read_by_its_primary_key(router, place, keys):
    with router.session(keys=keys) as session:
        for read in (lambda row: row.visits, session.refresh, lambda row: row.country):
            row = _by_key(session, None)
            with pytest.raises(InvalidRequestError, match=r"(?i)not be located|could not refresh|has been deleted"):
                read(row)
            session.expunge(row)
        row = session.get(Place, place.id)
        session.expire(row)
        assert 1 == row.visits
        session.refresh(row)


def _changed(session, place, **values):
    row = session.get(Place, place.id)
    for name, value in values.items():
        setattr(row, name, value)


WRONG = {
    "a new row of another key": lambda s, p: s.add(Place(country=DE)),
    "a new row among right ones": lambda s, p: s.add_all([Place(country=FR), Place(country=DE), Place(country=FR)]),
    "a new row without a key": lambda s, p: s.add(Place()),
    "a wrong slot beside a right key": lambda s, p: s.add(Place(country=FR, slot=0)),
    "a child with another slot": lambda s, p: s.add(Photo(place_id=p.id, slot=0)),
    "a key of two columns": lambda s, p: s.add(Visit(country=FR, year=2026)),
    "half a key": lambda s, p: s.add(Visit(country=FR)),
    "a changed key": lambda s, p: _changed(s, p, country=DE),
    "a key that is emptied": lambda s, p: _changed(s, p, country=None),
    "a changed slot": lambda s, p: _changed(s, p, slot=0),
    "a changed key and slot": lambda s, p: _changed(s, p, country=DE, slot=0),
    "a merged row of another key": lambda s, p: s.merge(Place(id=uuid4(), country=DE)),
    "a merged row with another key": lambda s, p: s.merge(Place(id=p.id, country=DE)),
    "a reference": lambda s, p: s.add(Currency(code="EUR")),
    "an insert of a reference": lambda s, p: s.execute(insert(Currency), [{"code": "EUR"}]),
    "an update of references": lambda s, p: s.execute(update(Currency).values(code="X")),
    "a delete of references": lambda s, p: s.execute(delete(Currency)),
    "an insert of wrong rows": lambda s, p: s.execute(insert(Place), [{"id": uuid4(), "country": DE, "visits": 0}]),
    "an insert of mixed rows": lambda s, p: s.execute(
        insert(Place), [{"id": uuid4(), "country": key, "visits": 0} for key in (FR, DE)]
    ),
    "an insert of one row": lambda s, p: s.execute(insert(Place), {"id": uuid4(), "country": DE, "visits": 0}),
    "an insert of rows without a key": lambda s, p: s.execute(insert(Place), [{"id": uuid4(), "visits": 0}]),
    "an insert of rows with a slot": lambda s, p: s.execute(
        insert(Place), [{"id": uuid4(), "country": FR, "visits": 0, "slot": 0}]
    ),
    "an insert with values": lambda s, p: s.execute(insert(Place).values(id=uuid4(), country=FR, visits=0)),
    "an insert with a list of values": lambda s, p: s.execute(
        insert(Place).values([{"id": uuid4(), "country": FR, "visits": 0}])
    ),
    "an insert from a select": lambda s, p: s.execute(
        insert(Place).from_select(["id", "country", "visits", "slot"], select(Place.id, Place.country, 1, Place.slot))
    ),
    "an insert of nothing": lambda s, p: s.execute(insert(Place)),
    "an update of the key": lambda s, p: s.execute(update(Place).values(country=FR)),
    "an update of the key by column": lambda s, p: s.execute(update(Place).values({Place.country: DE})),
    "an ordered update of the key": lambda s, p: s.execute(update(Place).ordered_values((Place.country, DE))),
    "an update of the slot": lambda s, p: s.execute(update(Place).values(slot=0)),
    "an update of the slot with returning": lambda s, p: s.execute(update(Place).values(slot=0).returning(Place.id)),
    "an update by parameters": lambda s, p: s.execute(update(Place), {"country": DE}),
    "an update by a list of rows": lambda s, p: s.execute(update(Place), [{"id": p.id, "visits": 3}]),
    "a query that updates the key": lambda s, p: s.query(Place).update({"country": DE}),
    "a query that updates the slot": lambda s, p: s.query(Place).update({Place.slot: 0}),
    "bulk_save_objects": lambda s, p: s.bulk_save_objects([Place(country=FR)]),
    "bulk_insert_mappings": lambda s, p: s.bulk_insert_mappings(Place, [{"country": FR}]),
    "bulk_update_mappings": lambda s, p: s.bulk_update_mappings(Place, [{"id": p.id, "visits": 2}]),
    "a float as key": lambda s, p: s.add(Place(country=1.5)),
    "a row of another session": lambda s, p: s.delete(_elsewhere(p)),
    "a change of any row by its primary key": lambda s, p: setattr(_by_key(s, p), "visits", 9),
    "a delete of any row by its primary key": lambda s, p: s.delete(_by_key(s, p)),
    "an upsert by the primary key": lambda s, p: s.execute(_upsert(s, ["id"], {"visits": 9}), _row_like(s)),
    "an upsert of the key": lambda s, p: s.execute(
        _upsert(s, ["slot", "id"], {"country": DE}), {"id": p.id, "country": FR}
    ),
    "an insert that replaces": lambda s, p: s.execute(insert(Place).prefix_with("OR REPLACE"), _row_like(s)),
    "an update that replaces": lambda s, p: s.execute(update(Place).prefix_with("OR REPLACE").values(visits=9)),
    "an update from other rows": lambda s, p: s.execute(
        update(Place).where(OTHER.country == DE).values(visits=OTHER.visits)
    ),
    "an update without the ORM": lambda s, p: s.execute(
        update(Place).values(visits=9), execution_options={"dml_strategy": "core_only"}
    ),
    "a delete without the ORM": lambda s, p: s.execute(delete(Photo), execution_options={"dml_strategy": "core_only"}),
    "an update of an alias": lambda s, p: s.execute(update(OTHER).values(visits=9)),
    "a delete by other rows": lambda s, p: s.execute(
        delete(Photo).where(Photo.place_id == Place.id, Place.country == DE)
    ),
}
INSERTS = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def _id_in(session, country):
    """Return the primary key of the place of any country, by a statement that sees every row."""
    return session.scalar(select(Place.__table__.c.id).where(Place.__table__.c.country == country))


def _row_like(session):
    return {"id": _id_in(session, DE), "country": FR, "visits": 9}


def _by_key(session, _):
    """Return a place of another slot that this session has not read: an object with nothing but its primary key."""
    row = Place(id=_id_in(session, DE))
    make_transient_to_detached(row)
    session.add(row)
    return row


def _upsert(session, index, changed):
    chosen = INSERTS[session.get_bind().dialect.name]
    return chosen(Place).on_conflict_do_update(index_elements=index, set_=changed)


def _elsewhere(place):
    """Return a detached row that was loaded with another slot."""

    row = Place(id=uuid4(), country=DE, slot=(place.slot + 1) % 64, visits=0)
    make_transient_to_detached(row)
    return row


def _done(session, act, *values):
    act(session, *values)
    session.commit()


@pytest.mark.parametrize("wrong", WRONG)
def test_a_write_that_leaves_the_slot_is_refused_and_writes_nothing(files, router, place, wrong):
    before = files.sql("one", "SELECT id, country, visits, slot FROM place ORDER BY id")
    with router.session(FR) as session:
        with pytest.raises((CrossShard, InvalidInput)) as refused:
            _done(session, WRONG[wrong], place)
        assert refused.value.hint
    assert before == files.sql("one", "SELECT id, country, visits, slot FROM place ORDER BY id")


def test_an_upsert_by_slot_and_primary_key_changes_rows_of_the_slot_alone(router, place):
    with router.session(FR) as session:
        upsert = _upsert(session, ["slot", "id"], {"visits": 5})
        session.execute(upsert, [{"id": place.id, "country": FR, "visits": 2}, {"country": FR, "visits": 3}])
        session.commit()
        assert [3, 5] == sorted(session.scalars(select(Place.visits)))
        with pytest.raises(IntegrityError):
            session.execute(upsert, _row_like(session))


def test_a_child_belongs_to_a_parent_of_its_own_slot(router, place):
    with router.session(DE) as session:
        session.add(Photo(place_id=place.id))
        with pytest.raises(IntegrityError, match=r"(?i)foreign key"):
            session.commit()


def test_there_are_at_least_forty_wrong_writes():
    assert 40 <= len(WRONG)


def test_core_and_text_are_refused_where_no_triggers_stand(files, place):
    with apportion.sync.open_shards(files.url, SET, base=Base, triggers=False) as router, router.session(FR) as session:
        for statement in (text("SELECT 1"), select(Place.__table__), select(Place).from_statement(text("SELECT 1"))):
            with pytest.raises(CrossShard, match="Core or text"):
                session.execute(statement)


def test_a_reader_sees_its_slot_and_cannot_write_by_any_way(router, place):
    with router.session(FR, read_only=True) as session:
        row = session.get(Place, place.id)
        for statement in (text("DELETE FROM place"), delete(Place), update(Place).values(visits=2)):
            with pytest.raises(DBAPIError, match=READ_ONLY):
                session.execute(statement)
            session.rollback()
        session.add(row)
        row.visits = 3
        with pytest.raises(DBAPIError, match=READ_ONLY):
            session.commit()
    with router.session(FR) as session:
        session.get(Place, place.id).visits = 4
        session.commit()


def test_commit_rollback_savepoints_and_a_second_transaction_work_and_no_connection_leaks(router, place):
    engine, _ = router.engine("one")
    with router.session(FR) as session:
        session.add(Place(country=FR, visits=2))
        session.commit()
        with session.begin_nested() as inner:
            session.add(Place(country=FR, visits=3))
            session.flush()
            inner.rollback()
        session.add(Place(country=FR, visits=4))
        session.commit()
        session.add(Place(country=FR, visits=5))
        session.rollback()
        assert [1, 2, 4] == sorted(session.scalars(select(Place.visits)))
    assert 0 == engine.pool.checkedout()


def test_several_keys_of_one_shard_share_a_session_and_each_child_gets_the_slot_of_its_parent(router, place):
    with router.session(keys=[FR, DE]) as session:
        assert 2 == len(session.scalars(select(Place)).all())
        german = Place(country=DE)
        session.add_all([german, Place(country=FR)])
        session.flush()
        photos = [Photo(place_id=german.id), Photo(place_id=place.id)]
        session.add_all(photos)
        session.commit()
        assert [router.slot(DE), router.slot(FR)] == [photo.slot for photo in photos]
        with pytest.raises(CrossShard):
            _done(session, lambda s: s.add(Place(country="IT")))


def test_a_block_of_pin_gives_its_sessions_the_key_and_refuses_another(router, place):
    with router.pin(FR):
        with router.session() as session:
            assert 1 == len(session.scalars(select(Place)).all())
        for another in (lambda: router.session(DE), lambda: router.pin(DE).__enter__()):
            with pytest.raises(CrossShard, match="pinned to slot"):
                another()
    with pytest.raises(InvalidInput, match="key of a session"):
        router.session()


def test_the_methods_of_the_applications_own_session_class_stay(files, place):
    class Own(Session):
        def places(self):
            return self.scalars(select(Place)).all()

    with (
        apportion.sync.open_shards(files.url, SET, base=Base, session={"class_": Own}) as router,
        router.session(FR) as session,
    ):
        assert [place.id] == [row.id for row in session.places()]


def test_the_class_of_an_async_session_names_the_class_of_its_sync_session(files):
    class Own(Session):
        pass

    class OwnAsync(AsyncSession):
        sync_session_class = Own

    async def main():
        async with apportion.open_shards(files.url, SET, base=Base, session={"class_": OwnAsync}) as router:
            first, second = router.session(FR), router.session(FR)
            assert isinstance(first, OwnAsync)
            assert isinstance(first.sync_session, Own)
            assert type(first.sync_session) is type(second.sync_session)

    asyncio.run(main())


def test_a_bare_writer_is_refused_by_the_database_where_the_slot_is_not_owned(files, place):
    files.state("one", place.slot, "moved")
    try:
        for statement in ("UPDATE place SET visits = 9 WHERE slot = ?", "DELETE FROM place WHERE slot = ?"):
            with pytest.raises(Exception, match="stale route"):
                files.sql("one", statement, (place.slot,))
        with pytest.raises(Exception, match="stale route"):
            files.sql(
                "one",
                "INSERT INTO place (id, country, visits, slot) VALUES (?, 'FR', 0, ?)",
                (uuid4().hex, place.slot),
            )
    finally:
        files.state("one", place.slot, "owner")
    with pytest.raises(Exception, match="keeps its slot"):
        files.sql("one", "UPDATE place SET slot = slot + 1")
    if files.kind == "sqlite":
        for statement in ("UPDATE place SET country = 'IT'", "UPDATE OR REPLACE visit SET year = year + 1"):
            files.sql("one", "INSERT INTO visit (id, country, year, slot) VALUES (?, 'FR', 1, 1)", (uuid4().hex,))
            with pytest.raises(sqlite3.IntegrityError, match="keeps its shard key"):
                files.sql("one", statement)
        files.sql("one", "UPDATE place SET country = country, visits = 3")


def test_the_database_refuses_a_child_whose_slot_is_not_its_parents(files, place):
    here, other, photo = place.id.hex, (place.slot + 1) % 64, "INSERT INTO photo (id, place_id, slot) VALUES (?, ?, ?)"
    for statement, values in (
        ("UPDATE photo SET place_id = ?", (uuid4().hex,)),
        (photo, (uuid4().hex, here, other)),
    ):
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            files.sql("one", statement, values)
    files.sql("one", photo, (uuid4().hex, here, place.slot))
