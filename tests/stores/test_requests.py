"""Requests: what no store takes is refused before anything is sent, naming field, value and limit."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidInput
from apportion.stores import Absent, Put, Unchanged
from apportion.stores.memory.store import CAPABILITIES
from apportion.stores.requests import Space, checked_after, checked_leases, checked_ttl

SPACE = Space("crawl")
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)


def refused(call, *arguments):
    with pytest.raises(InvalidInput) as caught:
        call(*arguments)
    assert str(caught.value).count("\n") == 1  # a problem and a hint, a line each
    return str(caught.value)


def request(when=(), puts=(), deletes=()):
    return SPACE.request(when, puts, deletes, CAPABILITIES)


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("", "1 to 1024 bytes"),
        ("x" * (64 * 1024 + 1), "1 to 1024 bytes"),
        ("x" * 1_025, "1 to 1024 bytes"),
        ("ä" * 513, "at most 1024 bytes"),
        ("a\0b", "without NUL"),
        ("a\ud800b", "lone surrogates"),
        (b"bytes", "a str"),
        (7, "a str"),
        (None, "a str"),
    ],
    ids=["empty", "64 KiB + 1", "1025", "1026 in UTF-8", "NUL", "surrogate", "bytes", "int", "None"],
)
def test_a_key_that_no_store_keeps_is_refused(key, named):
    message = refused(SPACE.key, key)
    assert named in message
    assert len(message) < 400
    assert named in refused(request, [Absent(key=key)], [Put(key=key, value=b"")])


@pytest.mark.parametrize("key", ["x" * 1_024, "ä" * 512, " ", "/", "%", "\n", "\U0010ffff"])
def test_the_longest_and_the_oddest_keys_are_kept(key):
    assert key == SPACE.text(SPACE.key(key))


@given(text=TEXT, other=TEXT)
def test_a_key_is_in_the_span_of_its_prefixes_and_of_no_other(text, other):
    start, end = SPACE.span(other)
    if text:
        assert text.startswith(other) == (start <= SPACE.key(text) < end)


@given(text=TEXT)
def test_no_key_is_in_the_span_of_another_namespace(text):
    start, end = Space("crawl2").span("")
    if text:
        assert not start <= SPACE.key(text) < end


@pytest.mark.parametrize("namespace", ["", "a/b", " a", "a b", "x" * 65, ".a", "a\0", "ä", 7, None])
def test_a_namespace_is_a_plain_word(namespace):
    assert "?namespace=crawl" in refused(Space, namespace)


@pytest.mark.parametrize("ttl", [0, -1, 1e18, float("nan"), float("inf"), float("-inf"), "10", None, True, 10**400])
def test_a_time_to_live_that_no_store_keeps_is_refused_with_the_bounds(ttl):
    assert "0.1 .. 604800" in refused(checked_ttl, ttl, CAPABILITIES)


@pytest.mark.parametrize("lease", [0, -1, 2**63, 1.0, "1", None, True])
def test_what_cannot_be_a_lease_is_refused(lease):
    refused(checked_leases, [lease])
    if lease is not None:
        refused(request, [Absent(key="a")], [Put(key="a", value=b"", lease=lease)])


@pytest.mark.parametrize("leases", [None, 7, "7", iter([7])])
def test_what_is_no_list_of_leases_is_refused(leases):
    assert "a list" in refused(checked_leases, leases)


def test_leases_are_distinct_and_sorted():
    assert (1, 2, 2**63 - 1) == checked_leases([2, 1, 2, 2**63 - 1])


@pytest.mark.parametrize("after", [-1, 2**63, 1.0, None, True, "0"])
def test_a_watch_begins_after_a_revision(after):
    refused(checked_after, after)


@pytest.mark.parametrize("revision", [0, -1, 2**63, 1.0, None, True])
def test_a_compare_names_a_revision_that_can_be(revision):
    assert "revision of Unchanged" in refused(request, [Unchanged(key="a", revision=revision)], (), ["a"])


@pytest.mark.parametrize(
    ("when", "puts", "deletes", "named"),
    [
        ([], [], [], "at least one"),
        ([Absent(key="a")], [], [], "at least one"),
        ([], [Put(key="a", value=b"")], [], "compared in `when`"),
        ([Absent(key="a")], [], ["a"], "compared by Unchanged"),
        ([Absent(key="a"), Absent(key="a")], [Put(key="a", value=b"")], [], "key of a compare is 'a'"),
        ([Absent(key="a")], [Put(key="a", value=b"")] * 2, [], "key of a put is 'a'"),
        ([Unchanged(key="a", revision=1)], [Put(key="a", value=b"")], ["a"], "written once"),
        ([Unchanged(key="a", revision=1)], [], ["a", "a"], "written once"),
        (["a"], [Put(key="a", value=b"")], [], "compare"),
        ([Absent(key="a")], ["a"], [], "Put(key, value)"),
        ([Absent(key="a")], [None], [], "Put(key, value)"),
        ([Absent(key="a")], [Absent(key="a")], [], "Put(key, value)"),
        ([Absent(key="a")], Put(key="a", value=b""), [], "puts is a Put, expected a list"),
        ([Unchanged(key="a", revision=1)], [], "a", "deletes is 'a', expected a list"),
        ([Unchanged(key="a", revision=1)], [], [None], "a str"),
        (None, [Put(key="a", value=b"")], [], "when is None, expected a list"),
        ([Absent(key="a")], [Put(key="a", value="text")], [], "bytes"),
        ([Absent(key="a")], [Put(key="a", value=b"x" * 1_000_001)], [], "max_value_bytes"),
        ([Absent(key=str(n)) for n in range(1_001)], [Put(key="0", value=b"")], [], "max_operations"),
        (
            [Absent(key=str(n)) for n in range(17)],
            [Put(key=str(n), value=b"x" * 1_000_000) for n in range(17)],
            [],
            "max_commit_bytes",
        ),
    ],
)
def test_a_commit_that_breaks_a_rule_is_refused_with_the_rule(when, puts, deletes, named):
    assert named in refused(request, when, puts, deletes)


def test_a_commit_may_be_exactly_as_large_as_its_store_takes():
    limits = replace(CAPABILITIES, max_value_bytes=9, max_operations=2, max_commit_bytes=46)
    when, puts = [Absent(key="a"), Unchanged(key="b", revision=1)], [Put(key="a", value=b"x" * 9)]
    assert 2 == len(SPACE.request(when, puts, ["b"], limits).compares)  # 7 bytes per key, "crawl/" included
    SPACE.request(when, [*puts, Put(key="b", value=b"x" * 9)], [], limits)
    for smaller in ({"max_value_bytes": 8}, {"max_operations": 1}, {"max_commit_bytes": 45}):
        with pytest.raises(InvalidInput, match=next(iter(smaller))):
            SPACE.request(when, [*puts, Put(key="b", value=b"x" * 9)], [], replace(limits, **smaller))
    with pytest.raises(InvalidInput, match="max_operations"):
        SPACE.request([Unchanged(key="b", revision=1), Absent(key="a")], puts, ["b"], replace(limits, max_operations=1))


def test_the_least_and_the_most_of_each_number_are_taken():
    assert [0.1, 604_800.0] == [checked_ttl(ttl, CAPABILITIES) for ttl in (0.1, 604_800)]
    for ttl in (0.099, 604_800.1):
        assert "0.1 .. 604800" in refused(checked_ttl, ttl, CAPABILITIES)
    for after in (0, 2**63 - 1):
        checked_after(after)
    for number in (1, 2**63 - 1):
        put = Put(key="a", value=b"", lease=number)
        assert number == request([Absent(key="a")], [put]).puts[0][2]
        assert number == request([Unchanged(key="a", revision=number)], [], ["a"]).compares[0][1]
    assert "x" * 64 == Space("x" * 64).namespace


def test_a_request_lists_its_keys_in_order():
    found = request(
        [Unchanged(key="c", revision=3), Absent(key="b"), Absent(key="a")],
        [Put(key="b", value=b"2"), Put(key="a", value=b"1", lease=7)],
        ["c"],
    )
    assert ((b"crawl/a", None), (b"crawl/b", None), (b"crawl/c", 3)) == found.compares
    assert ((b"crawl/a", b"1", 7), (b"crawl/b", b"2", None)) == found.puts
    assert (b"crawl/c",) == found.deletes
