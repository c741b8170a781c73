"""The range of a slot is divided and joined again, and only the rows of the named range change."""

from uuid import UUID

import pytest
from sqlalchemy import func, select

import apportion
from apportion.errors import BadRange, Conflict, InvalidInput, StaleRoute, UnknownOption
from apportion.shards import shard as shard_module
from apportion.shards.admin import carrier as carrier_module
from tests.shards.ranges.sample import (
    ROWS,
    Base,
    Line,
    Note,
    Numbers,
    Reading,
    act,
    ill,
    is_sound,
    merge,
    ranges,
    rows,
    split,
)
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role
from tests.shards.test_isolation import TO_THE_SWITCH, left
from tests.shards.test_own_slots import moving

NAMES = ("a", "k", "m", "mé", "t", "é")
MOVED = [each for each in NAMES if each >= "m"]
POINTS = [*TO_THE_SWITCH, "switch.before", "switch.after", "settle.after", "uncapture.after", "clean-batch.before"]
SOAK = ((), *[pytest.mark.soak] * 4)
"""One point in five is tried in each run, all of them in the long search."""


class Died(Exception):
    pass


@pytest.fixture
def files(make_set, kind, monkeypatch):
    """A set by ranges, with three rows of each of six names, each with a child."""
    as_role(monkeypatch, OWNER)
    files = make_set(kind, slots=1, base=Base, is_ranged=True)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for number in range(ROWS * len(NAMES)):
            name = NAMES[number // ROWS]
            lines = [Line(id=UUID(int=number))]
            note = Note(id=UUID(int=number), name=name, count=number, lines=lines)
            router.run(name, lambda session, note=note: session.add(note))
    return files


def die(files, monkeypatch, label, work):
    """Do a work, and die at a stop point."""

    def reached(at):
        if at == label:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(carrier_module, "stop_point", lambda: reached)
        with pytest.raises(Died):
            work()


def check_split(files, shard="two"):
    stay, away = ROWS * (len(NAMES) - len(MOVED)), ROWS * len(MOVED)
    for table in ("note", "line"):
        one, two = rows(files, "one", table), rows(files, "two", table)
        assert (({0: stay}, {1: away}) if shard == "two" else ({0: stay, 1: away}, {})) == (one, two)
    assert {"0[,m)": "one", "1[m,)": shard} == ranges(files)
    assert ([], {}, []) == (left(files, "range-1"), moving(files), ill(files))
    assert is_sound(files)


def check_whole(files):
    assert ({0: ROWS * len(NAMES)}, {}) == (rows(files, "one"), rows(files, "two"))
    assert ({"0[,)": "one"}, {}, []) == (ranges(files), moving(files), ill(files))
    assert is_sound(files)


@pytest.mark.parametrize(("to", "shard"), [(None, "one"), ("one", "one"), ("two", "two")])
def test_the_keys_from_a_bound_on_get_a_slot_with_their_rows(files, to, shard):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        assert {0} == {router.slot(each) for each in NAMES}
        assert (1, shard, True) == split(files, 0, "m", to=to)
        for number, name in enumerate(NAMES):
            router.run(name, lambda session, name=name, number=number: write(session, name, number))
            assert (int(name >= "m"), "two" if name in MOVED and shard == "two" else "one") == place(router, name)
        assert ROWS * len(NAMES) == router.scatter(select(func.count()).select_from(Note)).scalar()
        assert set(NAMES) == set(router.keys(Note))
        assert ROWS * len(NAMES) == sum(len(each.session.query(Note).all()) for each in router.each(read_only=True))
    check_split(files, shard)


def place(router, name):
    return router.slot(name), router.shard(name)


def write(session, name, number):
    """Read the rows of a name, change one, add one and delete it again."""
    found = session.scalars(select(Note).where(Note.name == name)).all()
    assert ROWS == len(found)
    found[0].count += 1
    added = Note(id=UUID(int=100 + number), name=name)
    session.add(added)
    session.flush()
    session.delete(added)


def test_a_divided_set_is_divided_again_and_joined(files):
    split(files, 0, "m", to="two")
    assert (2, "two", True) == split(files, 1, "mz")
    assert (3, "one", True) == split(files, 0, "k")
    assert {"0[,k)": "one", "3[k,m)": "one", "1[m,mz)": "two", "2[mz,)": "two"} == ranges(files)
    assert (1, "m", None) == merge(files, 2, 1)
    assert (0, None, "m") == merge(files, 0, 3)
    check_split(files)
    act("apply", files, act("plan", files, slots=[1], to="one"))
    act("clean", files, soak=apportion.shards.admin.SOAK * 0)
    assert (0, None, None) == merge(files, 0, 1)
    check_whole(files)
    assert (1, "two", True) == split(files, 0, "m", to="two")
    check_split(files)


def test_a_number_that_is_free_again_is_taken_where_its_slot_was_before(files):
    split(files, 0, "m", to="two")
    act("apply", files, act("plan", files, slots=[1], to="one"))
    act("clean", files, soak=apportion.shards.admin.SOAK * 0)
    merge(files, 0, 1)
    act("apply", files, act("plan", files, slots=[0], to="two"))
    act("clean", files, soak=apportion.shards.admin.SOAK * 0)
    assert (1, "two", True) == split(files, 0, "m")
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        router.run("t", lambda session: write(session, "t", 4))
    merge(files, 0, 1)
    act("pin", files, ["new"], base=Base)
    assert [] == ill(files)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        router.run("new", lambda session: session.add(Note(id=UUID(int=90), name="new")))
    assert is_sound(files)


def test_a_key_of_a_range_is_isolated_and_stays_apart(files):
    found = act("isolate", files, "t", base=Base, to="two")
    assert (1, "two") == (found.slot, found.shard)
    assert (2, "one", True) == split(files, 0, "m")
    assert {"0[,m)": "one", "2[m,)": "one"} == ranges(files)
    assert ({1: ROWS}, ROWS * 3) == (rows(files, "two"), rows(files, "one")[2])
    assert (0, None, None) == merge(files, 0, 2)
    assert is_sound(files)


def test_a_round_over_all_slots_is_refused_once_rows_have_changed_their_slots(files):
    split(files, 0, "k", to="two")
    for change in (lambda: split(files, 1, "m"), lambda: merge(files, 1, 2)):
        with apportion.sync.open_shards(files.url, SET, base=Base) as router:
            turns = router.each(read_only=True)
            next(turns)
            change()
            with pytest.raises(StaleRoute):
                list(turns)
            assert set(NAMES) == set(router.keys(Note))


def test_the_same_split_again_changes_nothing(files):
    split(files, 0, "m", to="two")
    version = act("status", files).version
    assert [(1, "two", False)] * 2 == [split(files, 0, "m", to="two"), split(files, 0, "m")]
    with pytest.raises(BadRange, match="a key at which no slot begins; slot 1 on two does") as refused:
        split(files, 0, "m", to="one")
    assert "shards plan URL SET --move 1 --to one" in refused.value.hint
    assert version == act("status", files).version


def test_a_split_outside_of_its_range_is_refused(files):
    split(files, 0, "m")
    for slot, at, said in [
        (1, "m", "after its first one"),
        (1, "a", r"a key inside \[m,\), the range of slot 1"),
        (0, "z", r"a key inside \[,m\), the range of slot 0"),
        (7, "a", "a slot with a range"),
        (0, "", "text without NUL that is not empty"),
        (0, "a\0", "text without NUL"),
        (0, "k" * 300, "one with which range"),
    ]:
        with pytest.raises(BadRange, match=said):
            split(files, slot, at)
    with pytest.raises(InvalidInput, match="boundary of the split is 7, expected a value of str"):
        split(files, 0, 7)
    with pytest.raises(UnknownOption):
        split(files, 0, "k", to="twoo")
    assert ({}, []) == (moving(files), ill(files))


def test_a_merge_of_other_slots_than_neighbours_of_one_shard_is_refused(files):
    split(files, 0, "m", to="two")
    split(files, 0, "k")
    with pytest.raises(
        InvalidInput, match="shard of the slot to merge is 'two', expected one, that of slot 2"
    ) as refused:
        merge(files, 2, 1)
    assert "shards plan URL SET --move 1 --to one" in refused.value.hint
    with pytest.raises(BadRange, match=r"the slot of a range beside 0\[,k\): 2"):
        merge(files, 0, 1)
    with pytest.raises(BadRange, match="slot is 9, expected a slot with a range"):
        merge(files, 0, 9)
    assert ({}, []) == (moving(files), ill(files))


def test_too_many_rows_to_stay_are_refused_before_and_in_the_transaction(files, monkeypatch):
    monkeypatch.setattr(shard_module, "MOST_IN_PLACE", 2 * ROWS * len(MOVED) - 1)
    with pytest.raises(InvalidInput, match="rows to change in slot 0 is") as refused:
        split(files, 0, "m")
    assert "shards split URL SET SLOT m --to ID" in refused.value.hint
    monkeypatch.setattr("apportion.shards.admin.keys.split.check_few", lambda *_, **__: None)
    with pytest.raises(InvalidInput, match="rows to change in slot 0 is"):
        split(files, 0, "m")
    check_whole(files)
    split(files, 0, "m", to="two")
    act("apply", files, act("plan", files, slots=[1], to="one"))
    act("clean", files, soak=apportion.shards.admin.SOAK * 0)
    with pytest.raises(InvalidInput, match="rows to change in slot 1 is"):
        merge(files, 0, 1)
    check_split(files, "one")


def test_a_set_by_hash_has_no_range_to_divide(make_set, kind, monkeypatch):
    as_role(monkeypatch, OWNER)
    files = make_set(kind, slots=1, base=Base)
    for work in (lambda: split(files, 0, "m"), lambda: merge(files, 0, 1)):
        with pytest.raises(InvalidInput, match="set is 'one by hash or by lists', expected one made with"):
            work()


def test_integers_are_ordered_by_their_values(make_set, kind, monkeypatch):
    as_role(monkeypatch, OWNER)
    files = make_set(kind, slots=1, base=Numbers, is_ranged=True)
    meters = (-(2**63), -10, -9, 5, 40, 100, 2**63 - 1)
    with apportion.sync.open_shards(files.url, SET, base=Numbers) as router:
        for meter in meters:
            router.run(meter, lambda session, meter=meter: session.add(Reading(meter=meter)))
        assert (1, "two", True) == split(files, 0, 40, base=Numbers, to="two")
        assert (2, "one", True) == split(files, 0, -9, base=Numbers)
        assert [0, 0, 2, 2, 1, 1, 1] == [router.slot(meter) for meter in meters]
        with pytest.raises(InvalidInput):
            router.slot("5")
    assert {"0[,-9)": "one", "2[-9,40)": "one", "1[40,)": "two"} == ranges(files)
    assert ({0: 2, 2: 2}, {1: 3}) == (rows(files, "one", "reading"), rows(files, "two", "reading"))
    assert is_sound(files, Numbers)


@pytest.mark.slow
@pytest.mark.parametrize("label", [pytest.param(each, marks=SOAK[number % 5]) for number, each in enumerate(POINTS)])
def test_the_same_split_goes_on_after_the_death_of_a_mover(files, monkeypatch, label):
    die(files, monkeypatch, label, lambda: split(files, 0, "m", to="two"))
    assert (1, "two") == split(files, 0, "m", to="two")[:2]
    check_split(files)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["publish.after", "own.before", "own.after", "unlist.before"])
def test_the_same_split_goes_on_where_the_rows_stay(files, monkeypatch, label):
    die(files, monkeypatch, label, lambda: split(files, 0, "m"))
    assert (1, "one") == split(files, 0, "m")[:2]
    check_split(files, "one")


@pytest.mark.slow
@pytest.mark.parametrize("label", ["list.after", "join.before", "join.after", "take-back.before", "take-back.after"])
def test_the_same_merge_goes_on_after_the_death_of_a_mover(files, monkeypatch, label):
    split(files, 0, "m")
    die(files, monkeypatch, label, lambda: merge(files, 0, 1))
    if label != "take-back.after":
        assert (0, None, None) == merge(files, 0, 1)
    check_whole(files)


@pytest.mark.slow
def test_a_writer_that_waits_ends_a_merge_whose_mover_has_died(files, monkeypatch):
    split(files, 0, "m")
    die(files, monkeypatch, "join.after", lambda: merge(files, 0, 1))
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        router.run("t", lambda session: write(session, "t", 4))
    check_whole(files)


@pytest.mark.slow
@pytest.mark.parametrize(
    "label", [pytest.param(each, marks=SOAK[number % 5]) for number, each in enumerate(TO_THE_SWITCH)]
)
def test_an_abort_of_a_split_leaves_nothing(files, monkeypatch, label):
    die(files, monkeypatch, label, lambda: split(files, 0, "m", to="two"))
    act("abort", files)
    assert [] == left(files, "range-1")
    check_whole(files)


def test_a_slot_with_a_move_that_is_not_over_is_neither_divided_nor_joined(files):
    split(files, 0, "k")
    split(files, 1, "m", to="two")
    act("apply", files, act("plan", files, slots=[1], to="two"))
    for work in (lambda: split(files, 1, "l", to="one"), lambda: merge(files, 2, 1)):
        with pytest.raises(Conflict, match=r"slot 1 (of range .* )?moves"):
            work()
