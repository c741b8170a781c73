"""The checker of holds finds each moment that two members share, and each token that comes twice."""

import pytest

from bench.holders import Hold, Holders, overlaps, tokens_twice


def hold(member, start, end, *, epoch=1, shown=None, partition=0, incarnation=7):
    return Hold(
        member=member, partition=partition, token=(incarnation, epoch), start=start,
        shown=end if shown is None else shown, end=end,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("holds", "count"),
    [
        ([hold("a", 0, 1), hold("b", 1, 2, epoch=2)], 0),
        ([hold("a", 0, 1), hold("b", 0.9, 2, epoch=2)], 1),
        ([hold("a", 0, 1), hold("b", 0.9, 2, partition=1)], 0),
        ([hold("a", 0, 1), hold("a", 0.5, 2)], 0),
        ([hold("a", 0, 5), hold("a", 1, 2), hold("b", 3, 4, epoch=2)], 1),
        ([hold("b", 3, 4, epoch=2), hold("a", 0, 5)], 1),
    ],
)
def test_a_moment_that_two_members_share_is_found(holds, count):
    assert count == len(overlaps(holds))


def test_a_member_that_was_stopped_holds_until_it_could_show_its_token_for_the_last_time():
    holds = [hold("a", 0, 6, shown=1), hold("b", 4, 5, epoch=2)]
    assert 1 == len(overlaps(holds))
    assert 0 == len(overlaps(holds, [("a", 2.0, 6.0)]))
    assert 1 == len(overlaps(holds, [("b", 2.0, 6.0)]))
    assert 1 == len(overlaps([hold("a", 0, 6, shown=4.5), hold("b", 4, 5, epoch=2)], [("a", 2.0, 6.0)]))


@pytest.mark.parametrize(
    ("holds", "count"),
    [
        ([hold("a", 0, 1), hold("a", 2, 3), hold("b", 4, 5, epoch=2)], 0),
        ([hold("a", 0, 1), hold("b", 2, 3)], 1),
        ([hold("a", 0, 1, epoch=2), hold("b", 2, 3, epoch=1)], 1),
        ([hold("a", 0, 1), hold("b", 2, 3, epoch=2), hold("a", 4, 5)], 1),
        ([hold("a", 0, 1, epoch=9), hold("b", 2, 3, incarnation=8)], 0),
    ],
)
def test_a_token_that_comes_twice_is_found(holds, count):
    assert count == len(tokens_twice(holds))


def test_all_is_served_when_the_last_partition_is_held():
    holders = Holders(url="", partitions=2)
    holders.holds = [hold("a", 0, 2), hold("a", 3, 4, partition=1)]
    assert holders.served_after(2.5) is None
    holders.holds.append(hold("b", 2.7, 2.8, epoch=2))
    assert 0.5 == holders.served_after(2.5)
    assert 2.0 == holders.served_after(1.0)


def test_a_gap_is_the_longest_time_that_nobody_held_a_partition():
    holders = Holders(url="", partitions=1)
    holders.holds = [hold("a", 1, 2), hold("b", 2.25, 3), hold("a", 5, 6)]
    assert [2.0] == holders.gaps(after=0.5)
