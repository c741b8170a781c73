"""A switch is undone on both kinds of databases: slots go back with all writes since, and no row is copied again."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

import apportion
from apportion.errors import Conflict, InvalidInput, PlanRefused
from apportion.shards import admin
from apportion.shards.admin import ends
from tests.shards.conftest import BOTH
from tests.shards.sample import SET, Base, Photo, Place
from tests.shards.server import OWNER, as_role

COUNTRIES = [f"C{number}" for number in range(12)]
NOW = timedelta(0)


def act(name, files, *words, **options):
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


def fill(files):
    """Write a place and a photo of each country."""
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number, country in enumerate(COUNTRIES):
            with router.session(country) as session:
                place = Place(id=UUID(int=number), country=country)
                session.add_all([place, Photo(id=UUID(int=number), place=place)])
                session.commit()
    return files


def change(files):
    """Change the rows of some countries, delete some, and add new ones."""
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number, country in enumerate(COUNTRIES):
            with router.session(country) as session:
                place = session.get(Place, UUID(int=number))
                if number % 3 == 0:
                    session.delete(session.get(Photo, UUID(int=number)))
                    session.delete(place)
                else:
                    place.visits = 7
                session.add(Place(id=UUID(int=100 + number), country=country))
                session.commit()


def seen(files):
    """Return the rows that routers see: the visits of each place, and the photos."""
    places, photos = {}, set()
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for country in COUNTRIES:
            with router.session(country) as session:
                places |= {each.id.int: each.visits for each in session.query(Place)}
                photos |= {each.id.int for each in session.query(Photo)}
    return places, photos


CHANGED = (
    {number: 7 for number in range(12) if number % 3} | dict.fromkeys(range(100, 112), 0),
    {number for number in range(12) if number % 3},
)


def slots(files):
    return {each.id: each.slots for each in act("status", files).shards}


@pytest.fixture(params=BOTH)
def files(request, make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    return fill(make_set(request.param))


def there(files, **options):
    """Move all slots of shard one to shard two."""
    plan = act("plan", files, weights={"one": 0})
    made = act("apply", files, plan, is_reversible=True, **options)
    assert made.is_whole
    return made.moves


LOGS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE name LIKE 'apportion%log%' OR name = 'apportion_capture'",
    "postgresql": """SELECT tgname FROM pg_trigger WHERE tgname LIKE 'apportion_log%%'
        UNION ALL SELECT relname FROM pg_class WHERE relname LIKE 'log_%%'""",
}


def logs(files):
    """Return the names of all parts of logs on both shards."""
    return [name for shard in ("one", "two") for (name,) in files.sql(shard, LOGS[files.kind], ())]


def test_a_switch_is_undone_with_all_that_was_written_after_it(files):
    steps, moves = [], there(files)
    assert {"one": 0, "two": 64} == slots(files)
    change(files)
    made = act("reverse", files, moves, observer=steps.append)
    assert (moves, True) == (made.moves, made.is_whole)
    assert {"one": 32, "two": 32} == slots(files)
    assert CHANGED == seen(files)
    sound = act("verify", files, base=Base)
    assert (28, 0) == (sound.rows, sound.faulty)
    assert 0 == max(each.copied for each in steps)
    assert not {"capture", "chunk"} & {each.step for each in steps}
    assert {"reverse", "verify", "fence", "switch"} <= {each.step for each in steps}
    assert (moves, ()) == (act("clean", files, soak=NOW).moves, act("status", files).moves)
    assert (CHANGED, []) == (seen(files), logs(files))


def test_an_abort_of_the_way_back_keeps_all_writes_where_they_are(files):
    moves = there(files)
    change(files)

    def aborted(event):
        if event.step == "verify":
            asyncio.run_coroutine_threadsafe(ends.wish(files.url, SET, "abort"), asyncio.get_running_loop())

    made = act("reverse", files, moves, observer=aborted)
    if made.is_whole:
        pytest.fail("the mover was faster than the wish")
    act("abort", files)
    assert ({"one": 0, "two": 64}, CHANGED, []) == (slots(files), seen(files), logs(files))
    assert [0] == [count for (count,) in files.sql("one", "SELECT count(*) FROM place")]


def test_a_reversal_that_was_cut_off_is_finished_by_the_same_call_and_by_apply(files):
    class Cut(Exception):
        pass

    def cut(step):
        def take(event):
            if event.step == step:
                raise Cut

        return take

    moves = there(files)
    change(files)
    for step in ("reverse", "prepare"):
        with pytest.raises(Cut):
            act("reverse", files, moves, observer=cut(step))
    assert [("catching-up", "back")] != [(each.state, each.way) for each in act("status", files).moves]
    assert act("apply", files).is_whole
    assert ({"one": 32, "two": 32}, CHANGED) == (slots(files), seen(files))


def test_a_table_that_was_made_anew_after_the_switch_leaves_no_way_back(files):
    moves = there(files)
    if files.kind == "sqlite":
        files.sql("two", "DROP TRIGGER apportion_photo_logged_new")
    else:
        (name,) = {each for each in logs(files) if each.endswith("_insert")}
        files.sql("two", f'DROP TRIGGER "{name}" ON photo')
    with pytest.raises(InvalidInput, match=f"log of move {moves[0]} on shard two is 'incomplete'") as refused:
        act("reverse", files, moves)
    assert "apportion shards clean" in refused.value.hint
    assert {"one": 0, "two": 64} == slots(files)
    assert moves == act("clean", files, soak=NOW).moves
    assert [] == logs(files)


@pytest.mark.parametrize("files", ["sqlite"], indirect=True)
def test_what_cannot_be_reversed_is_refused_with_the_next_step(files):
    plan = act("plan", files, weights={"one": 0})
    with pytest.raises(InvalidInput, match="move is 'a', expected a move that is not cleaned; the set has none"):
        act("reverse", files, ["a"])
    with pytest.raises(InvalidInput, match="moves is 'a', expected a list of ids of moves"):
        act("reverse", files, "a")
    moves = act("apply", files, plan).moves
    with pytest.raises(Conflict, match="has no way back: it was applied without --reversible") as refused:
        act("reverse", files, moves)
    assert "apportion shards plan URL SET --to one" in refused.value.hint
    act("clean", files, soak=NOW)
    back = act("plan", files, weights={"one": 1})
    moves = act("apply", files, back, is_reversible=True).moves
    act("reverse", files, moves)
    with pytest.raises(Conflict, match="is reversed already: its slots are on two"):
        act("reverse", files, moves)
    with pytest.raises(PlanRefused, match="the move was reversed; run apportion shards clean"):
        act("apply", files, back)
