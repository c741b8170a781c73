"""What a member counts, each with its seconds, and what it sees of its group."""

from apportion.groups.batches import PendingMove
from apportion.groups.handover import Act, Known
from apportion.groups.statistics import Durations, GroupSummary, Statistics, sight
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import MemberRecord, OwnershipRecord, Target, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.stores.api import Item, Scan

KEYS = GroupKeys(group="g")
MEMBERS = {KEYS.member("a"): MemberRecord(nonce="a"), KEYS.member("b"): MemberRecord(nonce="b")}
A, B = {"owner": "a", "session": 1}, {"owner": "b", "session": 2}


def shown(view, now, records, *, first=1):
    """Show a view all there is: the record that stands n-th was written by the n-th revision from the first on."""
    texts = {key: (encoded_target if isinstance(each, Target) else encoded)(each) for key, each in records.items()}
    lease = {key: 7 if isinstance(each, MemberRecord) else None for key, each in records.items()}
    items = [
        Item(key=key, value=texts[key], revision=place, lease=lease[key]) for place, key in enumerate(texts, first)
    ]
    view.load(Scan(items=tuple(items), revision=99, incarnation=1), now)
    return view


def owned(*records):
    return {KEYS.own(partition): OwnershipRecord(**each) for partition, each in enumerate(records)}


def move(act, view, partition):
    known = Known(record=view.owned(partition).ownership, revision=1, session=None, is_wanted=True)
    return PendingMove(partition=partition, act=act, known=known)


def test_an_orphan_lasts_from_the_end_of_its_owners_session_to_our_commit():
    view, statistics, records = View(KEYS, 2), Statistics(), MEMBERS | owned(B | {"epoch": 1}, B | {"epoch": 1})
    shown(view, 1.0, records)
    shown(view, 10.0, {KEYS.member("a"): MEMBERS[KEYS.member("a")]} | owned(B | {"epoch": 1}, B | {"epoch": 1}))
    statistics.moved((move(Act.TAKE_OVER, view, 0), move(Act.TAKE_OVER, view, 1)), view, 12.5)
    assert (Durations(count=2, seconds=5.0), Durations()) == (statistics.orphans, statistics.handovers)


def test_an_orphan_whose_session_nobody_saw_end_cost_no_time_that_we_know_of():
    view, statistics = shown(View(KEYS, 1), 10.0, owned(B | {"epoch": 1})), Statistics()
    statistics.moved((move(Act.TAKE_OVER, view, 0),), view, 12.5)
    assert Durations(count=1, seconds=0.0) == statistics.orphans


def test_a_hand_over_lasts_from_the_loss_to_the_commit_that_gives_it_away_and_counts_once():
    view, statistics = shown(View(KEYS, 3), 1.0, MEMBERS | owned(*[A | {"epoch": 1}] * 3)), Statistics()
    statistics.loses([0, 1], 5.0)
    statistics.moved((move(Act.GIVE, view, 0), move(Act.GIVE, view, 2), move(Act.CLAIM, view, 1)), view, 5.25)
    statistics.moved((move(Act.GIVE, view, 0), move(Act.GIVE, view, 1)), view, 6.0)
    assert (2, Durations(count=2, seconds=1.25), Durations()) == (
        statistics.lost,
        statistics.handovers,
        statistics.orphans,
    )


def test_a_member_sees_who_is_there_what_drifts_and_what_has_no_owner():
    target = {KEYS.target: Target(generation=1, digest="d", owners=("a", "b", "b"))}
    mine, theirs = A | {"epoch": 1}, B | {"epoch": 1}
    view = shown(View(KEYS, 3), 1.0, MEMBERS | target | owned(mine, mine, {"epoch": 3}))
    expected = {"members": 2, "owned": 2, "generation": 1, "crash_looping": 0, "quarantined": 0, "is_controller": True}
    assert GroupSummary(**expected, drifting=2, orphaned=1) == sight(view, owned=2, is_controller=True, now=2.0)
    view = shown(View(KEYS, 3), 3.0, MEMBERS | target | owned(mine, theirs, theirs))
    assert GroupSummary(**expected, drifting=0, orphaned=0) == sight(view, owned=2, is_controller=True, now=4.0)


def test_of_partitions_that_wait_because_of_deaths_it_sees_those_that_still_do():
    ended = {"epoch": 9, "session": 50, "owner": "gone"}
    records = owned(ended | {"ended": (1, 2)}, ended | {"ended": (1, 2, 3, 4)}, ended | {"ended": (1, 2, 3, 4, 5, 6)})
    view = shown(View(KEYS, 3), 10.0, records, first=60)
    seen = [sight(view, owned=0, is_controller=False, now=now) for now in (10.0, 11.0, 14.0, 26.0)]
    assert [(3, 0), (2, 0), (1, 0), (0, 0)] == [(each.crash_looping, each.quarantined) for each in seen]
    stopped = shown(View(KEYS, 3, quarantine_after=6), 10.0, records, first=60)
    seen = sight(stopped, owned=0, is_controller=False, now=10.0)
    assert (2, 1, 0) == (seen.crash_looping, seen.quarantined, seen.generation)
