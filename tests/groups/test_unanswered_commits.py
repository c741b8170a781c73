"""Batches: which moves go in the next commit, and which moves an answer ends."""

import pytest

from apportion.groups.handover import Act, Known
from apportion.groups.unanswered_commits import AnsweredMoves, Batches, CommitAnswered, PendingMove
from apportion.groups.view.records import OwnershipRecord
from apportion.stores.api import Absent, Put, Unchanged

FREE = Known(record=OwnershipRecord(), revision=0, session=None, is_wanted=True)
MOVES = [PendingMove(partition=each, act=Act.CLAIM, known=FREE) for each in range(5)]


def request(move):
    return (Absent(key=f"own/{move.partition}"),), Put(key=f"own/{move.partition}", value=b"")


def request_of_two_lives(move):
    """Return a request whose third move compares another life of the same member."""
    return (Unchanged(key="member/a", revision=1 + (move.partition == 2)),), Put(key=f"own/{move.partition}", value=b"")


def filled(*, width=4, ways=1):
    batches = Batches(width=width, ways=ways)
    for move in MOVES:
        batches.add(move)
    return batches


def sent(batches, request=request):
    return [tuple(move.partition for move in commit.moves) for commit in batches.commits(request)]


def test_a_commit_has_as_many_moves_as_fit_and_no_more_commits_are_under_way_than_may_be():
    batches = filled(width=2, ways=2)
    assert [(0, 1), (2, 3)] == sent(batches)
    assert [] == sent(batches)
    assert [MOVES[0], MOVES[1]] == list(batches.answered(CommitAnswered(batch=1, revision=9), bool).done)
    assert [(4,)] == sent(batches)
    assert [False, False, True, True, True] == [each in batches for each in range(5)]


def test_moves_that_assume_different_lives_of_one_member_go_in_commits_of_their_own():
    assert [(0, 1), (2,), (3, 4)] == sent(filled(width=3, ways=9), request_of_two_lives)


def test_a_refused_batch_is_sent_again_in_halves_without_its_stale_moves():
    batches = filled()
    assert [(0, 1, 2, 3)] == sent(batches)
    ended = batches.answered(CommitAnswered(batch=1, is_refused=True), lambda move: move.partition != 1)
    assert AnsweredMoves(stale=(MOVES[1],)) == ended
    assert [(0, 2)] == sent(batches)
    ended = batches.answered(CommitAnswered(batch=2, is_refused=True), lambda _: True)
    assert AnsweredMoves() == ended
    assert [(3,)] == sent(batches)
    assert [True, False, True, True, True] == [each in batches for each in range(5)]


@pytest.mark.parametrize("first_is_answered", [True, False])
def test_a_commit_without_an_answer_is_repeated_at_once_only_the_first_time(first_is_answered):
    batches = Batches(width=1, ways=1)
    at_once = []
    for number in (1, 2, 3):
        batches.add(MOVES[0])
        assert [(0,)] == sent(batches)
        revision = 7 if first_is_answered and number == 2 else None
        ended = batches.answered(CommitAnswered(batch=number, revision=revision), lambda _: True)
        assert (0 in batches, (MOVES[0],)) == (False, ended.done or ended.failed)
        at_once.append(bool(ended.at_once))
    assert [True, False, first_is_answered] == at_once


def test_an_answer_to_a_commit_of_a_session_that_is_over_ends_no_move():
    batches = filled()
    assert [(0, 1, 2, 3)] == sent(batches)
    batches.clear()
    batches.add(MOVES[0])
    assert AnsweredMoves() == batches.answered(CommitAnswered(batch=1, revision=9), lambda _: True)
    assert (True, [(0,)]) == (0 in batches, sent(batches))
