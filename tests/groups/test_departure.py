"""Departure: a leaver asks until its request is there, frees all that is left in time, and a static one keeps it."""

import asyncio

import pytest

from apportion.errors import StoreUnavailable
from apportion.groups.life.departure import AGAIN_SECONDS, Departure
from apportion.groups.opening import Options
from apportion.groups.view.records import GroupRecord, MemberRecord
from apportion.stores import Committed, Refused, Unknown


class AskedMembership:
    """A membership that notes what it is asked for; `answers` are those to requests for a drain."""

    def __init__(self, *answers, owned=()):
        self.answers, self.owned, self.is_asked, self.asked, self.done = list(answers), owned, False, 0, []

    async def ask(self):
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def free(self, partitions, *, width):
        self.done.append(("free", tuple(partitions), width))

    async def leave(self, *, frees):
        self.done.append(("leave", tuple(frees)))


def departure(**more):
    member = MemberRecord(nonce="")
    times = {"ttl_seconds": 2.0, "drain_seconds": 5.0}
    return Departure(
        Options(group="g", record=GroupRecord(partitions=9), member_id="a", member=member, **times, **more)
    )


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([Committed(revision=3)], 1),
        ([Refused(revision=3)], 1),  # the view is about to show why
        ([None], 1),
        ([Unknown(reason="no reply"), Committed(revision=3)], 2),
        ([StoreUnavailable("a store", "it is away"), None], 2),
    ],
)
def test_a_request_without_an_answer_is_repeated_at_once_and_any_after_a_quarter_of_a_second(answers, asked):
    leaving, membership = departure(), AskedMembership(*answers)
    asyncio.run(leaving.ask(membership, 10.0))
    assert asked == membership.asked
    assert 10.0 + AGAIN_SECONDS == leaving.wakes_at()
    asyncio.run(leaving.ask(membership, 9.99 + AGAIN_SECONDS))
    assert asked == membership.asked
    asyncio.run(leaving.ask(membership, 10.0 + AGAIN_SECONDS))
    assert asked + 1 == membership.asked


def test_a_request_that_is_there_is_not_repeated_and_its_drain_has_an_end():
    leaving, membership = departure(), AskedMembership()
    assert (False, None, False) == (leaving.has_begun, leaving.wakes_at(), leaving.is_late(1e9))
    asyncio.run(leaving.ask(membership, 10.0))
    membership.is_asked = True
    asyncio.run(leaving.ask(membership, 11.0))
    # One drain and one time to live.
    assert (1, True, 17.0) == (
        membership.asked,
        leaving.has_begun,
        leaving.wakes_at(),
    )
    assert [False, True] == [leaving.is_late(now) for now in (16.9, 17.0)]


def test_a_leaver_frees_first_what_is_quiet_and_with_its_record_as_much_of_the_rest_as_fits():
    leaving, membership = departure(), AskedMembership(owned=(1, 2, 3, 4, 5))
    asyncio.run(leaving.go(membership, width=2, is_quiet=lambda each: each in (2, 5)))
    assert [("free", (2, 5), 2), ("leave", (1, 3))] == membership.done


def test_a_static_member_asks_nobody_and_keeps_all():
    leaving, membership = departure(is_static=True), AskedMembership(owned=(1, 2))
    asyncio.run(leaving.ask(membership, 10.0))
    asyncio.run(leaving.go(membership, width=2, is_quiet=lambda each: each == 1))
    assert (0, [("free", (), 2), ("leave", ())]) == (membership.asked, membership.done)
