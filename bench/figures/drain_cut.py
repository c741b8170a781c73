"""A member that leaves, and of whose requests exactly one is lost with its connection: each in turn, or its reply.

A member process reaches PostgreSQL or etcd through a proxy, and hands half of all partitions to another one. Each hold
lasts 50 to 150 ms, and the work on a partition ends with its hold. The time runs from the request to leave until the
member has left and the other one holds everything; it is compared with the median of undisturbed leaves.
SQLite has no connections; the simulated world loses each commit there is, on any store.
"""

from contextlib import AsyncExitStack
from statistics import median

from apportion.sim.conformance.proxy import Proxy
from apportion.sim.conformance.rig import Rig
from bench import engines
from bench.goal import at_most
from bench.holders import Holders
from bench.row import Row

PARTITIONS, TTL_SECONDS, ROUNDS, UNDISTURBED, MOST_REQUESTS = 8, 2.0, 3, 9, 60
GOAL = at_most(2.0, "x undisturbed")
_MEMBER, _OTHER = "ann", "bob"


def rows() -> list[Row]:
    """Cut drains on each store that has connections."""
    return engines.rows_of(_measure, "postgres", "etcd", what="drains that are cut")


async def _measure(rig: Rig) -> list[Row]:
    async with AsyncExitStack() as undo:
        proxy = Proxy(rig.address())
        await proxy.open()
        undo.push_async_callback(proxy.close)
        holders = Holders(url=rig.url("bench"), partitions=PARTITIONS, ttl_seconds=TTL_SECONDS)
        undo.push_async_callback(holders.end)
        await holders.start(_OTHER)
        await holders.start(_MEMBER, url=rig.url("bench", address=proxy.address))
        whole = median([await _left(holders) for _ in range(UNDISTURBED)])
        cut = {what: await _each_lost(holders, proxy, is_reply=what == "reply") for what in ("request", "reply")}
    return [_row(f"drain cut at each {what} in turn, {rig.name}", took, whole) for what, took in cut.items()]


def _row(name: str, took: list[float], whole: float) -> Row:
    """Return the row of all that was lost in turn; of each the median of its rounds counts."""
    ratio = max(took) / whole
    shown = f"{ratio:.2f} x: {max(took):.3f} s after {whole:.3f} s; {len(took)} lost in turn, median of {ROUNDS} each"
    return Row(name=name, value=ratio, shown=shown, goal=str(GOAL), met=GOAL.is_met(ratio))


async def _each_lost(holders: Holders, proxy: Proxy, *, is_reply: bool) -> list[float]:
    """Lose the first, the second and so on, until a leave does without the next; return how long each took."""
    took = list[float]()
    for number in range(1, MOST_REQUESTS + 1):
        before = proxy.lost
        rounds = list[float]()
        for _ in range(ROUNDS):
            rounds.append(await _left(holders, proxy, number, is_reply=is_reply))
        if proxy.lost == before:
            return took
        took.append(median(rounds))
    return took


async def _left(holders: Holders, proxy: Proxy | None = None, number: int = 0, *, is_reply: bool = False) -> float:
    """Let the member leave a group in which both share everything; it joins again afterwards."""
    await holders.until(lambda: holders.is_shared(_MEMBER, _OTHER))
    if proxy is not None:
        (proxy.lose_reply if is_reply else proxy.lose_request)(number)
    took = await holders.leave(_MEMBER)
    if proxy is not None:
        proxy.heal()
    holders.say(_MEMBER, "join")
    return took
