"""A member's share: what goes into one commit, what a refusal costs, and how long a partition waits."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apportion.groups.crash_loops import HEALTHY_SECONDS, KEPT_DEATHS
from apportion.groups.handover import Act, Phase
from apportion.groups.member import (
    AGAIN_SECONDS,
    Admitted,
    Drain,
    Ended,
    MemberMachine,
    Quiet,
    Seen,
    Serve,
    Stop,
    Tick,
    Wait,
)
from apportion.groups.unanswered_commits import CommitAnswered
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import (
    LEAVES,
    GroupRecord,
    MemberRecord,
    OwnershipRecord,
    Target,
    decoded,
    encoded,
    encoded_target,
)
from apportion.groups.view.view import View
from apportion.stores.api import Absent, Item, Scan, Unchanged

KEYS = GroupKeys(group="g")


class Stage:
    """A view that tests write into, and the share of member a."""

    def __init__(self, partitions=4, *, width=10, quarantine_after=None):
        self.view = View(KEYS, GroupRecord(partitions=partitions, quarantine_after=quarantine_after))
        self.member = MemberMachine(self.view, "a", width=width)
        self.items, self.revision = {}, 0
        self.put(KEYS.member("a"), MemberRecord(nonce="a"))
        self.step(Admitted(session=1))

    def put(self, key, record, now=0.0):
        self.revision += 1
        value = encoded_target(record) if isinstance(record, Target) else encoded(record)
        lease = 7 if isinstance(record, MemberRecord) and "member/" in key else None
        self.items[key] = Item(key=key, value=value, revision=self.revision, lease=lease)
        return self.load(now)

    def drain(self, name, value=LEAVES):
        self.revision += 1
        key = KEYS.drain(name)
        self.items[key] = Item(key=key, value=value, revision=self.revision, lease=7)
        return self.load(0.0)

    def drop(self, key, now=0.0):
        self.revision += 1
        del self.items[key]
        return self.load(now)

    def load(self, now):
        touched = self.view.load(Scan(items=tuple(self.items.values()), revision=self.revision, incarnation=1), now)
        return self.step(Seen(touched=touched), now)

    def want(self, *owners, now=0.0):
        generation = 1 if self.view.target is None else self.view.target.generation + 1
        return self.put(KEYS.target, Target(generation=generation, digest="d", owners=owners), now)

    def step(self, event, now=0.0):
        return self.member.step(event, now)

    def done(self, commit, now=0.0):
        """Let a commit happen."""
        self.revision += 1
        for put in commit.puts:
            self.items[put.key] = Item(key=put.key, value=put.value, revision=self.revision)
        return self.step(CommitAnswered(batch=commit.batch, revision=self.revision), now)

    def refused(self, commit, now=0.0):
        return self.step(CommitAnswered(batch=commit.batch, is_refused=True), now)


def moves(action):
    return [(move.act, move.partition) for move in action.moves]


def test_what_is_free_is_claimed_in_one_commit_and_then_served():
    stage = Stage()
    [commit] = stage.want("a", "a", "b", "a")
    assert [(Act.CLAIM, 0), (Act.CLAIM, 1), (Act.CLAIM, 3)] == moves(commit)
    assert {KEYS.own(0), KEYS.own(1), KEYS.own(3), KEYS.member("a")} == {compare.key for compare in commit.when}
    assert Unchanged(key=KEYS.member("a"), revision=1) in commit.when
    assert [Serve(partition=partition, epoch=1) for partition in (0, 1, 3)] == list(stage.done(commit))
    assert None is stage.member.wakes_at()


def test_a_commit_takes_as_many_moves_as_fit_and_the_rest_follow():
    stage = Stage(partitions=5, width=2)
    commits = stage.want(*"aaaaa")
    assert [2, 2, 1] == [len(commit.moves) for commit in commits]


def test_a_refused_batch_goes_in_halves_and_one_stale_move_holds_up_no_other():
    stage = Stage()
    [commit] = stage.want(*"aaaa")
    first, second = stage.refused(commit)
    assert [[0, 1], [2, 3]] == [[move.partition for move in half.moves] for half in (first, second)]
    assert 2 == len(stage.done(first))
    left, right = stage.refused(second)
    assert [Serve(partition=2, epoch=1)] == list(stage.done(left))
    assert () == stage.refused(right)
    assert 0 < AGAIN_SECONDS == stage.member.wakes_at()
    [again] = stage.step(Tick(), AGAIN_SECONDS)
    assert [(Act.CLAIM, 3)] == moves(again)


def test_what_a_refused_move_rested_upon_and_is_no_longer_so_is_looked_at_at_once():
    stage = Stage()
    [commit] = stage.want(*"aaaa")
    assert () == stage.put(KEYS.own(0), OwnershipRecord(epoch=3))
    assert {(Act.CLAIM, each) for each in range(4)} == {move for each in stage.refused(commit) for move in moves(each)}


def test_a_lost_reply_is_settled_by_what_the_watch_shows():
    stage = Stage(partitions=1)
    [commit] = stage.want("a")
    assert () == stage.step(CommitAnswered(batch=commit.batch))
    actions = stage.put(KEYS.own(0), decoded(OwnershipRecord, commit.puts[0].value))
    assert [Serve(partition=0, epoch=1)] == list(actions)


def test_a_commit_without_an_answer_is_repeated_at_once_and_then_after_pauses_until_it_is_answered():
    stage = Stage(partitions=2)
    [commit] = stage.want("a", "a")
    for pause in (0.0, AGAIN_SECONDS, AGAIN_SECONDS):
        assert () == stage.step(CommitAnswered(batch=commit.batch), 5.0)
        assert 5.0 + pause == stage.member.wakes_at()
        [commit] = stage.step(Tick(), 5.0 + pause)
        assert [(Act.CLAIM, 0), (Act.CLAIM, 1)] == moves(commit)
    assert [Serve(partition=each, epoch=1) for each in (0, 1)] == list(stage.done(commit, 5.0))
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"))
    assert [Drain(partition=0), Drain(partition=1)] == list(stage.want("b", "b"))
    [commit] = stage.step(Quiet(partitions=frozenset({0, 1})), 9.0)
    assert () == stage.step(CommitAnswered(batch=commit.batch), 9.0)
    assert 9.0 == stage.member.wakes_at()


def test_what_is_wanted_elsewhere_is_drained_first_and_then_given_to_its_session():
    stage = Stage(partitions=2)
    [commit] = stage.want("a", "a")
    stage.done(commit)
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"))
    assert [Drain(partition=1)] == list(stage.want("a", "b"))
    [give] = stage.step(Quiet(partitions=frozenset({1})))
    given = decoded(OwnershipRecord, give.puts[0].value)
    assert ("b", stage.view.session("b"), 2, 0) == (given.owner, given.session, given.epoch, len(given.ended))
    assert Unchanged(key=KEYS.member("b"), revision=stage.view.session("b")) in give.when


def test_what_a_member_that_was_asked_to_leave_should_get_stays_where_it_is():
    stage = Stage(partitions=2)
    [commit] = stage.want("a", "a")
    stage.done(commit)
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"))
    stage.want("a", "b")
    [give] = stage.step(Quiet(partitions=frozenset({1})))
    assert Absent(key=KEYS.drain("b")) in give.when
    stage.drain("b")
    [kept] = stage.refused(give)
    assert "a" == decoded(OwnershipRecord, kept.puts[0].value).owner
    assert [Serve(partition=1, epoch=2)] == list(stage.done(kept))


def test_a_member_that_leaves_gives_to_another_that_leaves_and_serves_nothing_anew():
    stage = Stage(partitions=2)
    [commit] = stage.want("a", "a")
    stage.done(commit)
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"))
    stage.want("a", "b")
    [give] = stage.step(Quiet(partitions=frozenset({1})))
    stage.drain("a")
    stage.drain("b")
    [again] = stage.refused(give)
    assert "b" == decoded(OwnershipRecord, again.puts[0].value).owner


def test_a_member_that_leaves_keeps_what_is_its_own_until_a_target_names_another():
    stage = Stage(partitions=1)
    [commit] = stage.want("a")
    stage.done(commit)
    assert [] == list(stage.drain("a"))
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"))
    assert [Drain(partition=0)] == list(stage.want("b"))


def test_a_damaged_request_to_leave_keeps_nothing_from_its_member():
    stage = Stage(partitions=2)
    [commit] = stage.want("a", "a")
    stage.done(commit)
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"))
    stage.drain("b", b"?")
    stage.want("a", "b")
    [give] = stage.step(Quiet(partitions=frozenset({1})))
    assert Unchanged(key=KEYS.drain("b"), revision=stage.items[KEYS.drain("b")].revision) in give.when


def test_moves_that_rest_upon_different_lives_of_a_member_go_apart():
    stage = Stage(partitions=2, width=10)
    [commit] = stage.want("a", "a")
    stage.done(commit)
    stage.put(KEYS.member("b"), MemberRecord(nonce="b1"))
    stage.member._batches._ways = 0
    stage.want("b", "b")
    stage.step(Quiet(partitions=frozenset({0})))
    stage.drop(KEYS.member("b"))
    stage.put(KEYS.member("b"), MemberRecord(nonce="b2"))
    stage.member._batches._ways = 4
    first, second = stage.step(Quiet(partitions=frozenset({1})))
    assert [[0], [1]] == [[move.partition for move in commit.moves] for commit in (first, second)]


def test_nothing_is_resumed_under_the_epoch_that_was_let_go():
    stage = Stage(partitions=1)
    [commit] = stage.want("a")
    stage.done(commit)
    stage.want("b")
    [give] = stage.step(Quiet(partitions=frozenset({0})))
    stage.step(CommitAnswered(batch=give.batch))
    [commit] = stage.want("a")
    assert [(Act.RENUMBER, 0)] == moves(commit)
    assert [Serve(partition=0, epoch=2)] == list(stage.done(commit))


def test_an_ended_session_stops_all_and_hears_no_more_of_its_commits():
    stage = Stage(partitions=2)
    [commit] = stage.want("a", "b")
    stage.done(commit)
    [late] = stage.want("a", "a")
    assert [Stop(partition=0)] == list(stage.step(Ended()))
    assert () == stage.done(late)
    assert Phase.IDLE is stage.member.phase(1)


def test_work_that_drains_is_stopped_once_when_its_record_is_damaged():
    stage = Stage(partitions=1)
    [commit] = stage.want("a")
    stage.done(commit)
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"))
    assert [Drain(partition=0)] == list(stage.want("b"))
    stage.revision += 1
    stage.items[KEYS.own(0)] = Item(key=KEYS.own(0), value=b"{}", revision=stage.revision, lease=None)
    assert [Stop(partition=0)] == list(stage.load(0.0))
    assert () == stage.put(KEYS.member("b"), MemberRecord(nonce="b", weight=2.0))
    session = stage.view.session("a")
    assert () == stage.put(KEYS.own(0), OwnershipRecord(owner="a", session=session, epoch=stage.revision))
    [give] = stage.step(Quiet(partitions=frozenset({0})))
    assert [(Act.GIVE, 0)] == moves(give)


def test_work_of_a_session_that_is_over_is_not_stopped_again_in_the_next():
    stage = Stage(partitions=1)
    [commit] = stage.want("a")
    stage.done(commit)
    stage.want("b")
    stage.step(Ended())
    stage.put(KEYS.member("a"), MemberRecord(nonce="a2"))
    assert () == stage.step(Admitted(session=stage.view.session("a")))
    assert Phase.DRAINING is stage.member.phase(0)


def test_a_partition_that_a_repair_gives_to_its_owner_is_served_anew_at_the_new_epoch():
    stage = Stage(partitions=1)
    [commit] = stage.want("a")
    stage.done(commit)
    session = stage.view.session("a")
    assert [Stop(partition=0)] == list(stage.put(KEYS.own(0), OwnershipRecord(owner="a", session=session, epoch=3)))
    assert [Serve(partition=0, epoch=3)] == list(stage.step(Quiet(partitions=frozenset({0}))))


def orphan(stage, partition, *ended, now=0.0):
    """Let member c own a partition."""
    stage.put(KEYS.member("c"), MemberRecord(nonce="c"), now)
    own = OwnershipRecord(owner="c", session=stage.revision, epoch=1, ended=ended)
    stage.put(KEYS.own(partition), own, now)
    return own.session


@pytest.mark.parametrize(("lasted", "counts"), [(0.0, True), (HEALTHY_SECONDS - 1, True), (HEALTHY_SECONDS, False)])
def test_a_death_counts_when_the_owner_had_served_for_less_than_a_minute(lasted, counts):
    stage = Stage(partitions=1)
    session = orphan(stage, 0, 98)
    stage.drop(KEYS.member("c"), lasted)
    [commit] = stage.want("a", now=lasted)
    assert [(Act.TAKE_OVER, 0)] == moves(commit)
    assert {Absent(key=KEYS.member("c"))} <= set(commit.when)
    assert ((98, session) if counts else ()) == decoded(OwnershipRecord, commit.puts[0].value).ended


def test_a_lapse_is_no_death_once_its_process_says_that_it_lives():
    stage = Stage(partitions=1)
    session = orphan(stage, 0, 98, 99)
    stage.drop(KEYS.member("c"), 5.0)
    assert [Wait(partition=0, deaths=3, until=6.0)] == list(stage.want("a", now=5.0))
    [commit] = stage.put(KEYS.member("c"), MemberRecord(nonce="d", former=(99, session)), 5.5)
    assert (98,) == decoded(OwnershipRecord, commit.puts[0].value).ended


def test_leaving_is_no_death():
    stage = Stage(partitions=1)
    session = orphan(stage, 0, 98, 99)
    stage.put(KEYS.static("c"), MemberRecord(nonce="c", left_session=session))
    stage.drop(KEYS.member("c"), 5.0)
    [commit] = stage.want("a", now=5.0)
    assert (98, 99) == decoded(OwnershipRecord, commit.puts[0].value).ended


@pytest.mark.parametrize(("deaths", "waits"), [(3, 1.0), (4, 2.0), (8, 32.0), (9, 60.0), (10, 60.0)])
def test_the_next_owner_waits_longer_after_each_death_and_at_most_a_minute(deaths, waits):
    stage = Stage(partitions=1)
    orphan(stage, 0, *range(100, 99 + deaths)[-KEPT_DEATHS:])
    stage.drop(KEYS.member("c"), 5.0)
    assert [Wait(partition=0, deaths=min(deaths, KEPT_DEATHS), until=5.0 + waits)] == list(stage.want("a", now=5.0))
    assert 5.0 + waits == stage.member.wakes_at()
    assert () == stage.step(Tick(), 4.9 + waits)
    [commit] = stage.step(Tick(), 5.0 + waits)
    assert [(Act.TAKE_OVER, 0)] == moves(commit)
    assert min(deaths, KEPT_DEATHS) == len(decoded(OwnershipRecord, commit.puts[0].value).ended)


def test_a_wait_is_said_once_and_not_at_each_look():
    stage = Stage(partitions=1)
    orphan(stage, 0, 98, 99)
    stage.drop(KEYS.member("c"), 5.0)
    assert 1 == len(stage.want("a", now=5.0))
    assert () == stage.put(KEYS.member("d"), MemberRecord(nonce="d"), 5.1)


def test_in_quarantine_a_partition_waits_until_it_is_released():
    stage = Stage(partitions=1, quarantine_after=3)
    orphan(stage, 0, 98, 99)
    stage.drop(KEYS.member("c"), 5.0)
    assert [Wait(partition=0, deaths=3, until=float("inf"))] == list(stage.want("a", now=5.0))
    assert () == stage.step(Tick(), 1e9)
    [commit] = stage.put(KEYS.own(0), OwnershipRecord(epoch=2), 1e9)
    assert [(Act.CLAIM, 0)] == moves(commit)


def test_a_planned_transfer_keeps_the_deaths_and_is_not_delayed():
    stage = Stage(partitions=1)
    orphan(stage, 0, 98, 99)
    stage.drop(KEYS.member("c"), 5.0)
    stage.want("a", now=5.0)
    [commit] = stage.step(Tick(), 6.0)
    stage.done(commit, 6.0)
    stage.put(KEYS.member("b"), MemberRecord(nonce="b"), 6.0)
    stage.want("b", now=6.0)
    [give] = stage.step(Quiet(partitions=frozenset({0})), 6.0)
    assert 3 == len(decoded(OwnershipRecord, give.puts[0].value).ended)


@given(st.floats(0, 1e7))
@example(4.07)  # 60 s later, 60 s less than that are past
def test_a_minute_of_service_clears_the_deaths_when_it_is_waited_for_to_the_last_bit(since):
    stage = Stage(partitions=1)
    stage.put(KEYS.own(0), OwnershipRecord(epoch=1, ended=(98, 99)), since)
    [commit] = stage.want("a", now=since)
    stage.done(commit, since)
    [commit] = stage.step(Tick(), stage.member.wakes_at())
    assert [(Act.ABSOLVE, 0)] == moves(commit)
    assert OwnershipRecord(owner="a", session=1, epoch=2) == decoded(OwnershipRecord, commit.puts[0].value)
