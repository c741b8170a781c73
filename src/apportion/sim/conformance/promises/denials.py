"""Denials: a right that is taken away for a moment, as by a rotated password or a maintenance window."""

from collections.abc import Awaitable, Callable

from apportion.errors import StoreDenied, StoreUnavailable
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.steps import make
from apportion.stores import Absent, Committed, Lease, Put, Scan

_DENIED_SECONDS = 1.0  # long enough for a watch to meet the denial too


@case()
async def a_right_that_is_taken_for_a_moment_is_missed_and_then_every_call_works_again(stage: Stage) -> None:
    """A handle without rights raises `StoreDenied`. With the rights back, every call works and the watch goes on."""
    ttl_seconds = min(60.0, stage.able.max_ttl_seconds)
    lease = await stage.store.grant(ttl_seconds=ttl_seconds)
    revisions = [await make(stage.store, "before")]
    tape = await stage.watch(after=revisions[0] - 1)
    await tape.shows(revisions[0])
    put = [Put(key="denied", value=b"")]
    async with stage.rig.denied():
        ends = stage.clock.elapsed() + _DENIED_SECONDS
        while stage.clock.elapsed() < ends:
            await _denied(stage, lambda: stage.store.commit(when=[Absent(key="denied")], puts=put))
            await _denied(stage, lambda: stage.store.grant(ttl_seconds=ttl_seconds))
    revisions.append(await _allowed(stage, lambda: make(stage.store, "after")))
    scan: Scan = await stage.store.scan("")
    same(["after", "before"], [item.key for item in scan.items], "the keys")
    same({lease.id}, await stage.store.renew([lease.id]), "the leases that are alive")
    other: Lease = await stage.store.grant(ttl_seconds=ttl_seconds)
    revisions.append(await make(stage.store, "leased", lease=other.id))
    await stage.store.revoke(other.id)
    last = await make(stage.store, "last")
    changes = await tape.shows(last)
    ended = [change.revision for change in changes if change.events[0].value is None]
    same(sorted([*revisions, *ended, last]), [change.revision for change in changes], "the revisions that were shown")
    same(1, len(ended), "ends of a lease that were shown")


async def _denied(stage: Stage, ask: Callable[[], Awaitable[object]]) -> None:
    """Repeat a request until the store denies it. A broken connection may first have to be made again."""
    ends = stage.clock.elapsed() + stage.patience_seconds
    while True:
        try:
            answer = await ask()
        except StoreDenied:
            return
        except StoreUnavailable as error:
            answer = error
        holds(not isinstance(answer, Committed), "nothing is committed without a right to it")
        holds(stage.clock.elapsed() < ends, f"a handle without its rights is denied: {answer!r}")


async def _allowed(stage: Stage, ask: Callable[[], Awaitable[int]]) -> int:
    ends = stage.clock.elapsed() + stage.patience_seconds
    while True:
        try:
            return await stage.available(ask)
        except StoreDenied as error:
            holds(stage.clock.elapsed() < ends, f"a handle with its rights is allowed again: {error}")
