"""Faults: lost replies, repeated requests, silence, cut connections, a full disk, a clock that steps."""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_bytes, token_hex

from apportion.errors import StoreUnavailable
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import LATENESS_SECONDS, Stage
from apportion.sim.conformance.expect import committed, holds, raises, same
from apportion.sim.conformance.lossy import LossyHandle
from apportion.sim.conformance.proxy import Proxy
from apportion.sim.conformance.steps import delete, item, make, rewrite
from apportion.stores import Absent, Committed, CoordinationStore, Event, Put, Refused, Unchanged, Unknown

_BOUND_SECONDS = 20.0
_SOON_SECONDS = 30.0
_MOST_REQUESTS = 20  # the most requests that one commit sends, including a new connection
_SWEEPS = 3  # later commits may send other requests than the first, so each sweep loses every reply anew
_HALF_OPEN_TTL_SECONDS = 4.0
_LARGE_BYTES = 256 * 1024
_MOST_LARGE = 40


class _Told:
    """The keys reported as committed, as failed, and as unknown."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.failed: set[str] = set()
        self.unsure: set[str] = set()

    async def make(self, store: CoordinationStore | LossyHandle, key: str, value: bytes) -> object:
        """Make a key, record the reported outcome, and return it."""
        try:
            outcome = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value)])
        except StoreUnavailable as error:
            self.failed.add(key)
            return error
        holds(not isinstance(outcome, Refused), "a commit that makes an absent key is never refused")
        (self.kept if isinstance(outcome, Committed) else self.unsure).add(key)
        return outcome

    def hold(self, found: set[str]) -> None:
        """Fail when a report was false."""
        same(set(), self.kept - found, "keys that were acknowledged and are not there")
        same(set(), self.failed & found, "keys that were said to have failed and are there")


@case()
async def a_lost_reply_is_never_called_a_failure(stage: Stage) -> None:
    """If any reply of a commit is lost, the outcome is `Unknown`, or a later scan confirms the outcome."""
    line, told = await stage.line(), _Told()
    after = (await stage.store.scan("")).revision
    for sweep in range(_SWEEPS):
        for nth in range(1, _MOST_REQUESTS + 1):
            lost = line.lost
            line.lose_reply(nth)
            outcome = await told.make(line, f"{sweep}/{nth:02}", b"first")
            if isinstance(outcome, Committed) and line.lost == lost:
                break
    line.lose_reply(None)
    holds(line.lost, "a reply was lost")
    found = set(await stage.keys())
    told.hold(found)
    for key in sorted((told.unsure | told.failed) - found):
        await stage.available(lambda: make(line.store, key, value=b"second"))  # noqa: B023
    last = await make(stage.store, "last")
    changes = await (await stage.watch(after=after)).shows(last)
    made = sorted(event.key for change in changes for event in change.events)
    same(sorted({*told.kept, *told.unsure, *told.failed, "last"}), made, "keys, each made once")


@case()
async def a_counter_is_exact_though_every_tenth_reply_is_lost(stage: Stage) -> None:
    """A caller that reads back after `Unknown` does nothing twice and leaves nothing out."""
    line, raised = await stage.line(), 0
    after = (await stage.store.scan("")).revision
    for turn in range(1, 51):
        if turn % 10 == 0:
            line.lose_reply(1 + turn // 10 % 3)
        raised += await _raise_by_one(stage, line)
    line.lose_reply(None)
    holds(line.lost, "a reply was lost")
    last = await stage.unchanged("counter")
    changes = await (await stage.watch(after=after)).shows(last.revision)
    numbers = [int((event.value or b"0 ").split()[0]) for change in changes for event in change.events]
    same(list(range(1, 51)), numbers, "the counter as a watch showed it")
    same(50, raised, "increments")


async def _raise_by_one(stage: Stage, line: LossyHandle) -> int:
    """Raise the counter by one, however many tries it takes; the nonce in the value identifies the writer."""
    nonce, unsure = token_hex(8), False
    while True:
        found = await stage.available(lambda: item(stage.store, "counter"))
        if found and found.value.endswith(nonce.encode()):
            holds(unsure, "a commit that was said to have failed, or to be refused, has not happened")
            return 1
        number = int(found.value.split()[0]) + 1 if found else 1
        compare = Unchanged(key="counter", revision=found.revision) if found else Absent(key="counter")
        put = Put(key="counter", value=f"{number} {nonce}".encode())
        try:
            outcome = await line.commit(when=[compare], puts=[put])
        except StoreUnavailable:
            continue
        if isinstance(outcome, Committed):
            return 1
        unsure = unsure or isinstance(outcome, Unknown)


@case()
async def a_request_that_comes_twice_is_done_once(stage: Stage) -> None:
    """When the network delivers all requests of a handle twice, the second copies change nothing."""
    line, other = await stage.line(), await make(stage.store, "other")
    first = committed(await line.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"1")]))
    second = committed(await line.commit(when=[Unchanged(key="a", revision=first)], puts=[Put(key="a", value=b"2")]))
    third = committed(await line.commit(when=[Unchanged(key="other", revision=other)], deletes=["other"]))
    before = await stage.store.scan("")
    holds(await line.repeat() >= 3, "at least three requests were repeated")
    same(before, await stage.store.scan(""), "the scan after the requests came again")
    last = await make(stage.store, "c")
    changes = await (await stage.watch(after=first)).shows(last)
    same([second, third, last], [change.revision for change in changes], "the revisions of the history")


@case("multi_host")
async def a_server_that_is_silent_keeps_nobody_waiting(stage: Stage) -> None:
    """Behind a network that swallows everything, calls end in time, report nothing false, and work again afterwards."""
    proxy = await stage.proxy()
    store = await stage.connect(address=proxy.address)
    lease, told = await store.grant(ttl_seconds=min(60.0, stage.able.max_ttl_seconds)), _Told()
    tape = await stage.watch(after=await make(store, "before"), store=store)
    proxy.silence()
    began = stage.clock.elapsed()
    await asyncio.gather(
        told.make(store, "within", b""),
        raises(StoreUnavailable, store.scan(""), "a scan of a silent server"),
        raises(StoreUnavailable, store.renew([lease.id]), "a renewal at a silent server"),
    )
    waited = stage.clock.elapsed() - began
    holds(waited < _BOUND_SECONDS, f"calls end within {_BOUND_SECONDS:g} s: {waited:.1f} s")
    holds("within" not in told.kept, "no commit is acknowledged behind a silent network")
    await make(stage.store, "meanwhile")
    proxy.heal()
    await stage.available(lambda: store.scan(""))
    last = await stage.available(lambda: make(store, "after"))
    changes = await tape.shows(last, within=_SOON_SECONDS)
    told.hold(set(await stage.keys()))
    shown = [event.key for change in changes for event in change.events if event.key != "within"]
    same(["meanwhile", "after"], shown, "keys that the watch showed")


@case("multi_host")
async def connections_that_answer_no_more_are_given_up_within_a_quarter_of_a_lease(stage: Stage) -> None:
    """When open connections fall silent, while new ones work, calls and a watch work again in time."""
    await _goes_on(stage, lambda proxy, _: proxy.half_open())


@case("multi_host")
async def connections_that_trickle_are_given_up_before_a_lease_ends(stage: Stage) -> None:
    """When replies on open connections come byte by byte, each in time, calls and a watch work again in time."""
    await _goes_on(stage, lambda proxy, ttl_seconds: proxy.trickle_open(ttl_seconds / 6))


async def _goes_on(stage: Stage, disturb: Callable[[Proxy, float], None]) -> None:
    """Disturb the open connections, while new ones work; calls and a watch work again in time."""
    proxy = await stage.proxy()
    store = await stage.connect(address=proxy.address)
    lease = await store.grant(ttl_seconds=max(_HALF_OPEN_TTL_SECONDS, stage.able.min_ttl_seconds))
    tape = await stage.watch(after=await make(store, "before"), store=store)
    await tape.shows(await make(stage.store, "shown"))
    await asyncio.gather(store.scan(""), store.renew([lease.id]))
    disturb(proxy, lease.ttl_seconds)
    within = lease.ttl_seconds / 4 + LATENESS_SECONDS
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "a renewal": lambda: store.renew([lease.id]),
        "a scan": lambda: store.scan(""),
        "a commit": lambda: _Told().make(store, f"own/{token_hex(4)}", b""),
    }
    renewed, *_ = await asyncio.gather(*(_answered(stage, *each, within=within) for each in calls.items()))
    same({lease.id}, renewed, "the leases that are alive")
    await tape.shows(await make(stage.store, "after"), within=lease.ttl_seconds + LATENESS_SECONDS)


async def _answered(stage: Stage, name: str, ask: Callable[[], Awaitable[object]], *, within: float) -> object:
    """Repeat a request until an answer comes; fail when it comes too late."""
    began = stage.clock.elapsed()
    while True:
        try:
            answer = await ask()
        except StoreUnavailable:
            answer = None
        waited = stage.clock.elapsed() - began
        holds(waited < within, f"{name} is answered within {within:g} s: {waited:.1f} s")
        if answer is not None and not isinstance(answer, StoreUnavailable | Unknown):
            return answer


@case("multi_host")
async def a_watch_goes_on_after_its_connection_was_cut(stage: Stage) -> None:
    """Cut connections cost a watch nothing: no change is left out, none comes twice, and the handle commits again."""
    proxy = await stage.proxy()
    store, told = await stage.connect(address=proxy.address), _Told()
    tape = await stage.watch(after=(await store.scan("")).revision, store=store)
    revisions = []
    for number in range(5):
        revisions += [await make(stage.store, f"{number}/{turn}") for turn in range(3)]
        proxy.cut()
        revisions.append(await make(stage.store, f"{number}/cut"))
        await tape.shows(revisions[-1], within=_SOON_SECONDS)
    await told.make(store, "own", b"")
    found = await stage.keys()
    told.hold(set(found))
    last = await stage.available(lambda: make(store, "last"))
    shown = [change.revision for change in await tape.shows(last, within=_SOON_SECONDS)]
    same(revisions, shown[: len(revisions)], "the revisions that were shown")
    same([last], shown[-1:], "the last of them")


@case("durable")
async def a_full_disk_loses_nothing_that_was_acknowledged(stage: Stage) -> None:
    """A store without room says so, keeps everything it acknowledged, and goes on when there is room again."""
    told = _Told()
    await told.make(stage.store, "before", b"1")
    size = min(_LARGE_BYTES, stage.able.max_value_bytes)
    async with stage.rig.full():
        for number in range(_MOST_LARGE):
            if len(told.failed | told.unsure) < 3:
                await told.make(stage.store, f"large/{number:02}", token_bytes(size))
    holds(told.failed | told.unsure, f"{_MOST_LARGE} commits of {size} bytes do not fit on a full disk")
    told.hold(set(await stage.keys()))
    await stage.available(lambda: make(stage.store, "after"))
    told.hold(set(await stage.keys()))


@case()
async def a_step_of_the_wall_clock_ends_no_lease(stage: Stage) -> None:
    """When the server's clock steps by an hour, forward or back, leases still end after their time to live."""
    long = await stage.store.grant(ttl_seconds=min(60.0, stage.able.max_ttl_seconds))
    await make(stage.store, "long", lease=long.id)
    for seconds in (3_600, -3_600):
        granted = stage.clock.elapsed()
        lease = await stage.store.grant(ttl_seconds=stage.ttl_seconds)
        made = await make(stage.store, "brief", lease=lease.id)
        tape = await stage.watch(after=made)
        async with stage.rig.stepped(seconds):
            changes = await tape.shows(made + 1, within=lease.ttl_seconds + LATENESS_SECONDS)
            lived = stage.clock.elapsed() - granted
            same((Event(key="brief", value=None),), changes[0].events, f"changes after a step of {seconds} s")
            holds(lived >= lease.ttl_seconds, f"the lease lives its time: {lived:.3f} s")
            same({long.id}, await stage.store.renew([long.id]), "the leases that are alive")
        same(["long"], list(await stage.keys()), "the keys")


@case()
async def a_step_of_the_wall_clock_changes_no_order(stage: Stage) -> None:
    """When the server's clock steps by an hour, forward or back, revisions still grow; a watch shows their order."""
    revision = await make(stage.store, "a", value=b"0")
    tape, revisions = await stage.watch(after=revision), [revision]
    for seconds in (3_600, -3_600):
        async with stage.rig.stepped(seconds):
            revisions.append(await rewrite(stage.store, "a", revisions[-1], b"%d" % seconds))
        revisions.append(await rewrite(stage.store, "a", revisions[-1], b"0"))
    revisions.append(await delete(stage.store, "a", revisions[-1]))
    same(sorted(set(revisions)), revisions, "the revisions in the order of their commits")
    changes = await tape.shows(revisions[-1])
    same(revisions[1:], [change.revision for change in changes], "the revisions that were shown")
