"""Timelines: which ones may go on by themselves, and which slot rows disagree with the table."""

import pytest

from apportion.errors import BadSnapshot
from apportion.shards.records import ShardRecord
from apportion.shards.slot_rows import SlotRow
from apportion.shards.slots import SlotTable
from apportion.shards.timeline.timeline import Disagreement, Timeline, disagreement, objections, went_back
from apportion.tables.layout import Version

NOTED = Timeline(cluster="7712776492628838731", number=4)
NEWEST = Version(incarnation=2, number=7)
LATER = Version(incarnation=2, number=8)
EARLIER = Version(incarnation=1, number=99)


def row(state, number=None):
    return SlotRow(state=state, number=number)


def kind_of(found, *, owner):
    """Return the kinds of disagreement of one slot row of shard `a`."""
    table = SlotTable(version=NEWEST, hash_slots=1, owners={0: owner}, pinned={})
    wrong = disagreement("a", {} if found is None else {0: found}, table)
    return {kind for kind in ("losing", "winning", "lost", "ahead") if getattr(wrong, kind)}


@pytest.mark.parametrize(
    ("found", "ours", "others"),
    [
        (None, "lost", None),
        (row("owner"), None, "losing"),
        (row("owner", EARLIER), None, "losing"),
        (row("owner", NEWEST), None, "losing"),
        (row("owner", LATER), "ahead", "ahead"),
        (row("fenced"), "winning", "losing"),
        (row("fenced", LATER), "ahead", "ahead"),
        (row("moved", NEWEST), "lost", None),
        (row("moved", LATER), "ahead", "ahead"),
        (row("incoming"), "lost", "losing"),
        (row("incoming", NEWEST), "winning", "losing"),
        (row("incoming", LATER), "winning", "losing"),
    ],
)
def test_a_row_disagrees_with_the_table_in_one_way(found, ours, others):
    assert {ours} - {None} == kind_of(found, owner="a")
    assert {others} - {None} == kind_of(found, owner="b")


def test_slots_that_are_left_out_and_rows_that_agree_are_not_told():
    table = SlotTable(version=NEWEST, hash_slots=4, owners={0: "a", 1: "b", 2: "b", 3: None}, pinned={})
    rows = {0: row("owner", NEWEST), 1: row("moved"), 2: row("incoming")}
    assert Disagreement() == disagreement("a", rows, table, {2})
    assert Disagreement(losing=(2, 9)) == disagreement("a", {**rows, 9: row("owner")}, table)


def test_a_later_timeline_of_the_same_cluster_goes_on_if_nothing_speaks_against_it():
    def said(found, wrong=None, moves=()):
        return objections(NOTED, found, wrong or Disagreement(), moves)

    later = Timeline(cluster=NOTED.cluster, number=6)
    assert () == said(later)
    assert ("it is an earlier primary",) == said(Timeline(cluster=NOTED.cluster, number=3))
    assert ("it is another cluster",) == said(Timeline(cluster="8", number=6))
    assert ("move a is under way", "move b is under way") == said(later, moves={"b", "a"})
    for kind, words in {
        "losing": "it accepts slot 5, which lies elsewhere",
        "winning": "it does not accept slot 5, which lies here",
        "lost": "it may lack rows of slot 5, which lies here",
        "ahead": "the table is older than the shard's slot 5",
    }.items():
        assert (words,) == said(later, Disagreement(**{kind: (5,)}))
    many = "it accepts slots 0, 1, 2, 3 and 5 more, which lie elsewhere"
    assert (many,) == said(later, Disagreement(losing=tuple(range(9))))


@pytest.mark.parametrize(
    ("cluster", "number", "is_part"),
    [(NOTED.cluster, 4, True), (NOTED.cluster, 0, True), (NOTED.cluster, 5, False), ("8", 4, False), ("8", 0, False)],
)
def test_a_standby_of_the_noted_cluster_is_part_of_its_timeline(cluster, number, is_part):
    found = Timeline(cluster=cluster, number=number)
    assert is_part == found.is_part_of(NOTED)
    assert not found.is_part_of(None)


def test_a_record_keeps_its_timeline_and_an_older_record_has_none():
    record = ShardRecord(url="postgresql://h/one", zone=("eu",), timeline=NOTED)
    assert record == ShardRecord.decode(record.encode())
    assert b"timeline" not in ShardRecord(url="postgresql://h/one").encode()


@pytest.mark.parametrize("damage", ["", "7", "7/0", "0/7", "7/x", "7/1/1", "-7/1", 7, None, f"{'9' * 30}/1"])
def test_a_damaged_timeline_is_refused(damage):
    sound = ShardRecord(url="postgresql://h/one", timeline=NOTED).encode().decode()
    said = "null" if damage is None else str(damage) if isinstance(damage, int) else f'"{damage}"'
    with pytest.raises(BadSnapshot, match="timeline"):
        ShardRecord.decode(sound.replace(f'"{NOTED}"', said).encode())


def test_the_hint_for_an_old_primary_begins_with_the_old_primary():
    error = went_back(("world", "one"), NOTED, Timeline(cluster=NOTED.cluster, number=3), ())
    assert error.hint.startswith("Stop this old primary")
    assert "accept-failover URL world one --check" in went_back(("world", "one"), None, NOTED, ()).hint
