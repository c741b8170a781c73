"""A put ends when enough nodes hold its entry, goes above later writes, and says how many nodes answered."""

import pytest

from apportion.errors import ClockAstray, QuorumNotReached
from apportion.shards.replicas.calls.call import CallFailed, CallRoute, EntryAnswered, PutDone, TableIsStale, TimeIsUp
from apportion.shards.replicas.calls.put import MOST_SENT_AGAIN, PutCall
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.level import NodeNeed
from apportion.shards.replicas.nodes.api import EntryStored, EntrySuperseded, SlotSealed, StaleNumber
from apportion.shards.replicas.version import EntryVersion, last_of

OLD, NEW = ("a", "b", "c"), ("b", "c", "d")


def v(number):
    return EntryVersion(milliseconds=number)


def put(*needs, above=lambda version: v(version.milliseconds + 1)):
    needs = needs or (NodeNeed(OLD, 2),)
    nodes = tuple(sorted({node for need in needs for node in need.nodes}))
    call = PutCall(
        NodeEntry(key=b"k", version=v(5), value=b"on"), CallRoute(nodes=nodes, writes=needs, reads=needs), above
    )
    assert [*nodes] == [each.node for each in call.begin()]
    return call


def answer(call, **answers):
    return [each for node, said in answers.items() for each in call.step(EntryAnswered(node, call.versions[-1], said))]


def test_a_put_ends_with_the_second_of_three_nodes():
    call = put()
    answer(call, a=EntryStored())
    assert call.outcome is None
    answer(call, c=EntryStored())
    assert PutDone(v(5)) == call.outcome


def test_a_superseded_put_is_sent_again_above_as_soon_as_it_cannot_win():
    call = put()
    assert [] == answer(call, a=EntrySuperseded(v(9)))
    assert [("a", v(10)), ("b", v(10)), ("c", v(10))] == [
        (each.node, each.entry.version) for each in answer(call, b=SlotSealed(v(7)))
    ]
    call.step(EntryAnswered("c", v(5), EntryStored()))  # an answer to the earlier version counts for nothing
    answer(call, a=EntryStored())
    assert call.outcome is None
    answer(call, b=EntryStored())
    assert PutDone(v(10)) == call.outcome
    assert [v(5), v(10)] == call.versions


def test_a_put_is_sent_again_while_one_node_is_down():
    call = put()
    assert 3 == len(answer(call, a=None, b=EntrySuperseded(v(9))))
    answer(call, a=None, b=EntryStored(), c=EntryStored())
    assert PutDone(v(10)) == call.outcome


def test_a_put_is_sent_again_four_times_at_most():
    call = put(NodeNeed(("a",), 1))
    for _ in range(MOST_SENT_AGAIN):
        assert answer(call, a=EntrySuperseded(last_of(call.versions[-1].milliseconds)))
    assert [] == answer(call, a=EntrySuperseded(last_of(call.versions[-1].milliseconds)))
    assert isinstance(call.outcome.error, QuorumNotReached)
    assert 1 + MOST_SENT_AGAIN == len(call.versions)


@pytest.mark.parametrize("last", [TimeIsUp(), EntryAnswered("c", v(5), None)])
def test_too_few_answers_are_an_error_with_their_number(last):
    call = put()
    answer(call, a=EntryStored(), b=None)
    assert call.outcome is None
    call.step(last)
    assert isinstance(call.outcome, CallFailed)
    assert (1, 2) == (call.outcome.error.acks, call.outcome.error.needed)
    assert call.outcome.error.retryable


def test_a_put_needs_enough_nodes_of_both_lists_of_a_move():
    call = put(NodeNeed(OLD, 2), NodeNeed(NEW, 2))
    answer(call, a=EntryStored(), b=EntryStored())
    assert call.outcome is None
    answer(call, d=EntryStored())
    assert PutDone(v(5)) == call.outcome


def test_a_node_with_a_later_table_ends_the_call():
    call = put()
    answer(call, a=StaleNumber(8), b=StaleNumber(8))
    assert TableIsStale("b", 8) == call.outcome


def test_one_node_with_a_later_table_does_not_matter_if_the_others_store():
    call = put()
    answer(call, a=StaleNumber(8), b=EntryStored(), c=EntryStored())
    assert PutDone(v(5)) == call.outcome


def test_a_put_does_not_follow_a_version_that_is_damaged():
    call = put(above=lambda _: None)
    answer(call, a=EntrySuperseded(v(9)), b=EntrySuperseded(v(9)))
    assert isinstance(call.outcome.error, ClockAstray)
    assert "'k'" in str(call.outcome.error)


def test_an_error_waits_for_the_nodes_that_may_still_answer():
    call = put(NodeNeed(OLD, 3))
    answer(call, a=None)
    assert call.outcome is None
    answer(call, b=EntryStored(), c=EntryStored())
    assert (2, 3) == (call.outcome.error.acks, call.outcome.error.needed)
