"""A get shows the newest write once enough nodes hold it, and nothing that was deleted and forgotten."""

from apportion.errors import QuorumNotReached
from apportion.shards.replicas.calls.call import (
    CallRoute,
    EntryAnswered,
    GetDone,
    NodesAreSlow,
    ReadAnswered,
    ReadKey,
    SendEntry,
    TableIsStale,
    TimeIsUp,
)
from apportion.shards.replicas.calls.get import GetCall, newest
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.level import NodeNeed
from apportion.shards.replicas.nodes.api import EntryPurged, EntryStored, EntrySuperseded, KeyState, StaleNumber
from apportion.shards.replicas.version import NOTHING, EntryVersion


def entry(number, value=b"on"):
    return NodeEntry(key=b"k", version=EntryVersion(milliseconds=number), value=value)


def state(number=None, clean_ms=0):
    return KeyState(entry=None if number is None else entry(number), clean_ms=clean_ms)


def get(**options):
    needs = (NodeNeed(("a", "b", "c"), 2),)
    call = GetCall(b"k", CallRoute(nodes=("b", "c", "a"), writes=needs, reads=needs), **options)
    assert (ReadKey("b", b"k"), ReadKey("c", b"k")) == call.begin()
    return call


def read(call, **answers):
    return [each for node, said in answers.items() for each in call.step(ReadAnswered(node, said))]


def test_two_equal_answers_are_enough():
    call = get()
    assert [] == read(call, b=state(5), c=state(5))
    assert GetDone(entry(5), entry(5).version) == call.outcome
    assert not call.has_written_back


def test_nothing_on_two_nodes_is_nothing():
    call = get()
    read(call, b=state(), c=state())
    assert GetDone(None, NOTHING) == call.outcome


def test_the_newest_is_written_to_the_others_before_it_is_shown():
    call = get()
    sent = read(call, b=state(5), c=state(7))
    assert [SendEntry("b", entry(7), copy=True), SendEntry("a", entry(7), copy=True)] == sent
    assert call.outcome is None
    call.step(EntryAnswered("a", entry(7).version, EntryStored()))
    assert GetDone(entry(7), entry(7).version) == call.outcome
    assert call.has_written_back


def test_a_node_with_a_later_write_holds_the_newest_too():
    call = get()
    read(call, b=state(5), c=state(7))
    call.step(EntryAnswered("a", entry(7).version, EntrySuperseded(EntryVersion(milliseconds=9))))
    assert GetDone(entry(7), entry(7).version) == call.outcome


def test_without_write_back_the_newest_is_shown_at_once():
    call = get(writes_back=False)
    assert [] == read(call, b=state(5), c=state(7))
    assert GetDone(entry(7), entry(7).version) == call.outcome


def test_a_silent_node_is_replaced_and_a_slow_one_is_joined():
    call = get()
    assert [ReadKey("a", b"k")] == read(call, b=None)
    assert [] == read(call, c=state(5), a=state(5))
    assert entry(5) == call.outcome.entry
    slow = get()
    assert (ReadKey("a", b"k"),) == slow.step(NodesAreSlow())
    assert () == slow.step(NodesAreSlow())


def test_too_few_answers_are_an_error_with_their_number():
    call = get()
    read(call, b=None, c=state(5), a=None)
    assert isinstance(call.outcome.error, QuorumNotReached)
    assert (1, 2) == (call.outcome.error.acks, call.outcome.error.needed)
    late = get()
    late.step(TimeIsUp())
    assert (0, 2) == (late.outcome.error.acks, late.outcome.error.needed)


def test_a_write_back_that_no_second_node_takes_shows_nothing():
    call = get()
    read(call, b=state(5), c=state(7))
    call.step(EntryAnswered("a", entry(7).version, None))
    assert call.outcome is None
    call.step(EntryAnswered("b", entry(7).version, None))
    assert (1, 2) == (call.outcome.error.acks, call.outcome.error.needed)


def test_nodes_with_a_later_table_end_the_call():
    call = get()
    read(call, b=StaleNumber(8), c=StaleNumber(8))
    assert TableIsStale("c", 8) == call.outcome or call.outcome is None
    read(call, a=StaleNumber(8))
    assert 8 == call.outcome.number


def test_an_entry_at_or_below_the_clean_mark_of_a_node_without_it_was_deleted():
    assert entry(7) == newest([state(7), state(None, clean_ms=6)])
    assert None is newest([state(7), state(None, clean_ms=7)])
    assert entry(7) == newest([state(7), state(7, clean_ms=9)])
    assert None is newest([state(7), state(5, clean_ms=7)])


def test_a_copy_that_a_node_has_purged_turns_the_get_to_nothing():
    call = get()
    read(call, b=state(), c=state(7))
    assert call.outcome is None
    call.step(EntryAnswered("b", entry(7).version, EntryPurged(7)))
    assert GetDone(None, NOTHING) == call.outcome
