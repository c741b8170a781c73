"""The order in which the runs of a worker begin, and which claims it gives back."""

import asyncio

from apportion.stores.task_values import Claim, Receipt
from apportion.work.runs import Runs


class _Desk:
    """Keeps the settlements."""

    def __init__(self):
        self.settled = []

    def settle(self, settlement):
        self.settled.append((settlement.receipt.task, settlement.fate))


def _claim(task, *, deaths=0):
    return Claim(
        receipt=Receipt(task=task, attempt=1, session=1), queue="q", lane=2, name="n", codec="json", arguments=b"{}",
        failures=0, deaths=deaths, crashes=0, enqueued=0, trace="",
    )  # fmt: skip


async def _given_back():
    desk = _Desk()
    runs = Runs("memory://runs", {}, concurrency=1, processes=0, ttl_seconds=0.05, desk=desk)
    for claims in ([_claim("plain")], [_claim("a", deaths=1), _claim("late")], [_claim("b", deaths=1)]):
        runs.start(claims, incarnation=1)
    async with asyncio.timeout(10):
        while len(desk.settled) < 2:
            await asyncio.sleep(0.01)
    overdue, desk.settled = desk.settled, []
    runs.give_back()
    await runs.close()
    return overdue, desk.settled


def test_suspects_go_first_in_their_order_and_are_not_given_back_for_having_waited():
    overdue, left = asyncio.run(_given_back())
    assert [("plain", "released"), ("late", "released")] == overdue
    assert [("a", "released"), ("b", "released")] == left
