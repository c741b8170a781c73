"""Handles: the promises of a handle about itself: capabilities, namespaces, and its end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import get_args

from apportion.errors import NotPromised, StoreClosed, UnknownOption
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import LATENESS_SECONDS, Stage
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.rig import Impossible
from apportion.sim.conformance.steps import delete, keys, make
from apportion.stores import Absent, Need, Put, connect

_MOST_TURNS = 400


@case()
async def a_closed_handle_is_dead(stage: Stage) -> None:
    """After `close` every call raises `StoreClosed`; closing twice is no error, and other handles go on."""
    store = await stage.connect()
    await make(store, "a")
    await store.close()
    await store.close()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "scan": lambda: store.scan(""),
        "commit": lambda: store.commit(when=[Absent(key="b")], puts=[Put(key="b", value=b"")]),
        "grant": lambda: store.grant(ttl_seconds=stage.ttl_seconds),
        "renew": lambda: store.renew([1]),
        "revoke": lambda: store.revoke(1),
    }
    for name, call in calls.items():
        await raises(StoreClosed, call(), f"{name} of a closed handle")
    same(["a"], await keys(stage.store), "the keys that another handle sees")


@case()
async def calls_that_are_cancelled_again_and_again_leave_a_handle_that_works(stage: Stage) -> None:
    """A call may be cancelled at any time, and again while it ends: the next call is answered as usual."""
    lease = await stage.store.grant(ttl_seconds=stage.patience_seconds)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "scan": lambda: stage.store.scan(""),
        "commit": lambda: stage.store.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"", lease=lease.id)]),
        "renew": lambda: stage.store.renew([lease.id]),
    }
    for name, call in calls.items():
        for turns in range(_MOST_TURNS):
            if await _outlasts_cancels(call(), after_turns=turns):
                break
        async with asyncio.timeout(stage.patience_seconds):
            await call()
        holds(turns > 0, f"{name} was cancelled at {turns} turns")
    same(["a"], await keys(stage.store), "the keys that are there")


async def _outlasts_cancels(deed: Awaitable[object], *, after_turns: int) -> bool:
    """Cancel a call at every turn of the loop after `after_turns`; return whether it was answered nevertheless."""
    task = asyncio.ensure_future(deed)
    for _ in range(after_turns):
        await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    return not task.cancelled() and task.exception() is None


@case()
async def closing_a_handle_ends_its_watches(stage: Stage) -> None:
    """A watch ends, without an error, when its own handle is closed. Watches of other handles go on."""
    store = await stage.connect()
    after = (await store.scan("")).revision
    own, other = await stage.watch(after=after, store=store), await stage.watch(after=after)
    first = await make(stage.store, "a")
    await own.shows(first)
    await store.close()
    await own.ends()
    last = await make(stage.store, "b")
    same([first, last], [change.revision for change in await other.shows(last)], "changes of the other watch")
    same([first], [change.revision for change in own.changes], "changes of the closed watch")


@case()
async def a_watch_of_a_closed_handle_is_refused(stage: Stage) -> None:
    """A watch that is begun on a closed handle raises `StoreClosed`, and does not simply end without an error."""
    store = await stage.connect()
    after = (await store.scan("")).revision
    await store.close()
    tape = await stage.watch(after=after, store=store)
    await raises(StoreClosed, tape.ends(), "a watch of a closed handle")


@case()
async def closing_a_handle_ends_no_lease(stage: Stage) -> None:
    """A lease outlives the handle that granted it: only time or a revocation ends it."""
    store = await stage.connect()
    lease = await store.grant(ttl_seconds=min(60.0, stage.able.max_ttl_seconds))
    await make(store, "member", lease=lease.id)
    await store.close()
    same({lease.id}, await stage.store.renew([lease.id]), "the leases that are alive")
    same(["member"], await keys(stage.store), "the keys")


@case()
async def namespaces_do_not_see_each_other(stage: Stage) -> None:
    """The same key in two namespaces is two keys for scans, compares and watches, also if their names begin alike."""
    other = await stage.connect(namespace=f"{stage.namespace}.2")
    after = (await stage.store.scan("")).revision
    tape, others = await stage.watch(after=after), await stage.watch(after=after, store=other)
    first, second = await make(stage.store, "a", value=b"1"), await make(other, "a", value=b"2")
    third = await delete(other, "a", second)
    same({"a": b"1"}, await stage.keys(), "the items of the first namespace")
    same([], await keys(other), "the keys of the second")
    shown = [change.revision for change in await others.shows(third)]
    same([second, third], shown, "changes of a watch of the second")
    last = await make(stage.store, "b")
    same([first, last], [change.revision for change in await tape.shows(last)], "changes of a watch of the first")


@case()
async def a_need_that_is_not_promised_is_refused(stage: Stage) -> None:
    """`connect` raises `NotPromised` for exactly the needs that the capabilities lack, and refuses unknown needs."""
    url = stage.rig.url(stage.namespace)
    for need in get_args(Need):
        promised = True
        try:
            await (await connect(url, needs=[need])).close()
        except NotPromised as error:
            same(need, error.need, "the need that is refused")
            promised = False
        same(getattr(stage.able, need), promised, f"whether {need} is promised")
    try:
        await (await connect(url, needs=["speed"])).close()  # type: ignore[list-item]
    except UnknownOption:
        return
    raise AssertionError("an unknown need was met")


@case()
async def capabilities_are_the_same_for_all_handles(stage: Stage) -> None:
    """Two handles of a store promise the same, and the limits leave room to work in."""
    able = stage.able
    same(able, (await stage.connect()).capabilities(), "the capabilities of another handle")
    holds(able.max_operations >= 100, "a commit may have 100 operations")
    holds(able.max_value_bytes >= 100_000, "a value may have 100 kB")
    holds(able.max_commit_bytes >= able.max_value_bytes, "a commit may hold the largest value")
    holds(0 < able.min_ttl_seconds <= 10 <= able.max_ttl_seconds, "a lease may have 10 seconds to live")
    holds(0 <= able.watch_delay_seconds <= 5, "a change is seen within 5 seconds")


@case()
async def a_lease_that_nobody_watches_ends_where_the_store_decides(stage: Stage) -> None:
    """Where `lease_end` is the store itself, a lease ends in time also when no watch is open."""
    if stage.able.lease_end != "store":
        raise Impossible("lease_end", "only a handle with an open watch ends leases")
    lease = await stage.store.grant(ttl_seconds=stage.ttl_seconds)
    await make(stage.store, "member", lease=lease.id)
    ends = stage.clock.elapsed() + lease.ttl_seconds + LATENESS_SECONDS
    while await keys(stage.store):
        holds(stage.clock.elapsed() < ends, "the lease ends in time")
