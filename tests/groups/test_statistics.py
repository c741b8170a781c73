"""The figures that a member counts, each with its seconds, and its view of the group."""

from apportion.groups.handover import Act, Known, OwnSession
from apportion.groups.holdings import Holdings
from apportion.groups.life.deadlines import Deadlines
from apportion.groups.life.effects import Effects
from apportion.groups.member import Drain, Serve, Stop
from apportion.groups.opening import Options
from apportion.groups.statistics import Durations, GroupSummary, Statistics, sight
from apportion.groups.unanswered_commits import PendingMove
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, Target, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.runtime.events import EventStream
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


class Counted:
    """The figures of a member with effects at times of our own."""

    def __init__(self, view):
        self.statistics, self._view, self._now = Statistics(), view, 0.0
        events = EventStream(self.statistics.observe, group="g", member_id="a", clock=self)
        holdings = Holdings(self, quiet=lambda _: None, told=lambda: None)
        given = Options(group="g", record=view.settings, member_id="a", member=MemberRecord(nonce=""))
        self._effects = Effects(view, holdings, Deadlines(given), events)

    def elapsed(self):
        return self._now

    def acts(self, now, *actions):
        self._now = now
        self._effects.act(actions, OwnSession(id="a", session=1), now)

    def moved(self, now, *moves):
        self._now = now
        known = {each: self._view.owned(each).ownership for _, each in moves}
        self._effects.moved(
            [
                PendingMove(
                    partition=each, act=act, known=Known(record=known[each], revision=1, session=None, is_wanted=True)
                )
                for act, each in moves
            ],
            now,
        )


def test_an_orphan_lasts_from_the_end_of_its_owners_session_to_our_commit():
    view, records = View(KEYS, GroupRecord(partitions=2)), MEMBERS | owned(B | {"epoch": 1}, B | {"epoch": 1})
    counted = Counted(view)
    shown(view, 1.0, records)
    shown(view, 10.0, {KEYS.member("a"): MEMBERS[KEYS.member("a")]} | owned(B | {"epoch": 1}, B | {"epoch": 1}))
    counted.moved(12.5, (Act.TAKE_OVER, 0), (Act.TAKE_OVER, 1))
    assert (Durations(count=2, seconds=5.0), Durations()) == (counted.statistics.orphans, counted.statistics.handovers)


def test_an_orphan_whose_session_nobody_saw_end_cost_no_time_that_we_know_of():
    counted = Counted(shown(View(KEYS, GroupRecord(partitions=1)), 10.0, owned(B | {"epoch": 1})))
    counted.moved(12.5, (Act.TAKE_OVER, 0))
    assert Durations(count=1, seconds=0.0) == counted.statistics.orphans


def test_a_hand_over_lasts_from_the_loss_to_the_commit_that_gives_it_away_and_counts_once():
    counted = Counted(shown(View(KEYS, GroupRecord(partitions=3)), 1.0, MEMBERS | owned(*[A | {"epoch": 1}] * 3)))
    counted.acts(1.0, Serve(partition=0, epoch=1), Serve(partition=1, epoch=1))
    counted.acts(5.0, Drain(partition=0), Drain(partition=1))
    counted.moved(5.25, (Act.GIVE, 0), (Act.GIVE, 2), (Act.CLAIM, 1))
    counted.moved(6.0, (Act.GIVE, 0), (Act.GIVE, 1))
    found = counted.statistics
    assert (2, 2, Durations(count=2, seconds=1.25), Durations()) == (
        found.gained,
        found.lost,
        found.handovers,
        found.orphans,
    )


def test_a_partition_that_is_lost_at_once_while_it_drains_is_lost_once_and_again_after_its_next_gain():
    counted = Counted(shown(View(KEYS, GroupRecord(partitions=1)), 1.0, MEMBERS | owned(A | {"epoch": 1})))
    for epoch in (1, 2):
        counted.acts(1.0, Serve(partition=0, epoch=epoch))
        counted.acts(2.0, Drain(partition=0))
        counted.acts(3.0, Stop(partition=0))
        assert (epoch, epoch) == (counted.statistics.gained, counted.statistics.lost)


def test_a_member_sees_who_is_there_what_drifts_and_what_has_no_owner():
    target = {KEYS.target: Target(generation=1, digest="d", owners=("a", "b", "b"))}
    mine, theirs = A | {"epoch": 1}, B | {"epoch": 1}
    view = shown(View(KEYS, GroupRecord(partitions=3)), 1.0, MEMBERS | target | owned(mine, mine, {"epoch": 3}))
    expected = {"members": 2, "owned": 2, "generation": 1, "crash_looping": 0, "quarantined": 0, "is_controller": True}
    assert GroupSummary(**expected, drifting=2, orphaned=1) == sight(view, owned=2, is_controller=True, now=2.0)
    view = shown(View(KEYS, GroupRecord(partitions=3)), 3.0, MEMBERS | target | owned(mine, theirs, theirs))
    assert GroupSummary(**expected, drifting=0, orphaned=0) == sight(view, owned=2, is_controller=True, now=4.0)


def test_of_partitions_that_wait_because_of_deaths_it_sees_those_that_still_do():
    ended = {"epoch": 9, "session": 50, "owner": "gone"}
    records = owned(ended | {"ended": (1, 2)}, ended | {"ended": (1, 2, 3, 4)}, ended | {"ended": (1, 2, 3, 4, 5, 6)})
    view = shown(View(KEYS, GroupRecord(partitions=3)), 10.0, records, first=60)
    seen = [sight(view, owned=0, is_controller=False, now=now) for now in (10.0, 11.0, 14.0, 26.0)]
    assert [(3, 0), (2, 0), (1, 0), (0, 0)] == [(each.crash_looping, each.quarantined) for each in seen]
    stopped = shown(View(KEYS, GroupRecord(partitions=3, quarantine_after=6)), 10.0, records, first=60)
    seen = sight(stopped, owned=0, is_controller=False, now=10.0)
    assert (2, 1, 0) == (seen.crash_looping, seen.quarantined, seen.generation)
