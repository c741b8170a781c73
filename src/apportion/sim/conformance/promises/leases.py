"""Leases: they end when they are not renewed, not before, and take their keys with them."""

import asyncio
from secrets import randbits

from apportion.errors import InvalidInput, LeaseLost
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import LATENESS_SECONDS, Stage
from apportion.sim.conformance.expect import committed, holds, raises, same
from apportion.sim.conformance.steps import item, keys, make, rewrite
from apportion.stores import Absent, Event, Lease, Put, Unchanged

_LONG_SECONDS = 60.0


async def _long(stage: Stage) -> Lease:
    """Return a lease that outlives the case."""
    return await stage.store.grant(ttl_seconds=min(_LONG_SECONDS, stage.able.max_ttl_seconds))


def _end_seconds(stage: Stage, lease: Lease) -> float:
    """Return the longest time from the last renewal until a watch must have seen the lease end."""
    return lease.ttl_seconds + stage.able.watch_delay_seconds + LATENESS_SECONDS


@case()
async def a_lease_that_is_not_renewed_ends_in_time(stage: Stage) -> None:
    """A lease lives for its time to live, and its key is gone soon after."""
    asked = stage.clock.elapsed()
    lease = await stage.store.grant(ttl_seconds=stage.ttl_seconds)
    holds(lease.ttl_seconds >= stage.ttl_seconds, "a lease lives at least as long as was asked for")
    made = await make(stage.store, "member", lease=lease.id)
    tape = await stage.watch(after=made)
    changes = await tape.shows(made + 1, within=stage.clock.elapsed() - asked + _end_seconds(stage, lease))
    lived = stage.clock.elapsed() - asked
    same((Event(key="member", value=None),), changes[0].events, "the change at the end of the lease")
    holds(lived >= lease.ttl_seconds, f"a lease of {lease.ttl_seconds:g} s was not ended after {lived:.3f} s")
    same([], await keys(stage.store), "the keys after the lease")


@case()
async def a_renewed_lease_lives_on(stage: Stage) -> None:
    """A lease that is renewed within its time to live stays alive as long as the renewals go on, and so do its keys."""
    lease = await stage.store.grant(ttl_seconds=stage.ttl_seconds)
    await make(stage.store, "member", lease=lease.id)
    tape = await stage.watch(after=(await stage.store.scan("")).revision)
    began = renewed = stage.clock.elapsed()
    while stage.clock.elapsed() < began + 3 * lease.ttl_seconds:
        await asyncio.sleep(lease.ttl_seconds * 0.6)
        sent = stage.clock.elapsed()
        alive = await stage.store.renew([lease.id])
        late = stage.clock.elapsed() - renewed >= lease.ttl_seconds  # the machine was busy: the lease may have ended
        holds(late or alive == {lease.id}, f"a lease is alive {sent - renewed:.3f} s after it was renewed")
        if late and not alive:
            return
        renewed = sent
    same([], tape.changes, "changes while the lease was renewed")
    same(["member"], await keys(stage.store), "the keys of the lease")


@case()
async def all_keys_of_a_lease_go_in_one_change(stage: Stage) -> None:
    """When a lease ends, its keys are deleted at one revision, and no other key is."""
    lease = await stage.store.grant(ttl_seconds=stage.ttl_seconds)
    names = [f"member/{number}" for number in range(5)]
    await make(stage.store, *names[:3], lease=lease.id)
    await make(stage.store, *names[3:], lease=lease.id)
    made = await make(stage.store, "member/other")
    tape = await stage.watch(after=made)
    changes = await tape.shows(made + 1, within=_end_seconds(stage, lease))
    same([tuple(Event(key=name, value=None) for name in names)], [each.events for each in changes], "the changes")
    same(["member/other"], await keys(stage.store), "the keys after the lease")


@case()
async def an_item_tells_its_lease(stage: Stage) -> None:
    """In scans, a key carries the lease that it was written with. It can change to another lease, or to none."""
    one, two = await _long(stage), await _long(stage)
    revision = await make(stage.store, "a", lease=one.id)
    for lease in (two.id, None, one.id):
        revision = await rewrite(stage.store, "a", revision, b"1", lease=lease)
        found = await item(stage.store, "a")
        same((lease, revision), found and (found.lease, found.revision), "the lease and revision of the key")
    await stage.store.revoke(two.id)
    same(["a"], await keys(stage.store), "the keys after the end of a lease that the key had left")
    await stage.store.revoke(one.id)
    same([], await keys(stage.store), "the keys after the end of the key's lease")


@case()
async def a_key_rewritten_without_its_lease_stays(stage: Stage) -> None:
    """A put without a lease removes the key from its old lease."""
    lease = await _long(stage)
    revision = await make(stage.store, "a", "b", lease=lease.id)
    await rewrite(stage.store, "a", revision, b"kept")
    await stage.store.revoke(lease.id)
    same({"a": b"kept"}, await stage.keys(), "the items after the end of the lease")


@case()
async def one_request_renews_many_leases(stage: Stage) -> None:
    """`renew` takes many leases and returns the live ones; a lease that has ended is not among them."""
    leases = [await _long(stage) for _ in range(20)]
    same(frozenset(), await stage.store.renew([]), "the result of a renewal of nothing")
    await stage.store.revoke(leases[7].id)
    asked = [lease.id for lease in leases]
    alive = frozenset(asked) - {leases[7].id}
    same(alive, await stage.store.renew([*asked, *asked]), "the leases that are alive")
    other = await stage.connect()
    same(alive, await other.renew(asked), "the leases that are alive, renewed by another handle")


@case()
async def renewals_change_no_revision(stage: Stage) -> None:
    """Granting and renewing leases makes no new revision, so no watch wakes for them."""
    before = await make(stage.store, "a")
    lease = await _long(stage)
    for _ in range(5):
        await stage.store.renew([lease.id])
    same(before, (await stage.store.scan("")).revision, "the revision after five renewals")


@case()
async def a_lease_that_has_ended_cannot_be_renewed(stage: Stage) -> None:
    """A renewal that comes too late restores neither the lease nor its keys."""
    lease = await stage.store.grant(ttl_seconds=stage.ttl_seconds)
    made = await make(stage.store, "member", lease=lease.id)
    tape = await stage.watch(after=made)
    await tape.shows(made + 1, within=_end_seconds(stage, lease))
    same(frozenset(), await stage.store.renew([lease.id]), "the leases that are alive")
    same([], await keys(stage.store), "the keys after the renewal")


@case()
async def a_put_with_a_dead_lease_writes_nothing(stage: Stage) -> None:
    """A put with a lease that has ended, or never existed, raises `LeaseLost`, and nothing of its commit happens."""
    live, dead = await _long(stage), await _long(stage)
    await stage.store.revoke(dead.id)
    for lease in (dead.id, dead.id + 1_000_003):
        when, last = [Absent(key=name) for name in "abc"], Put(key="c", value=b"", lease=lease)
        puts = [Put(key="a", value=b""), Put(key="b", value=b"", lease=live.id), last]
        error = await raises(LeaseLost, stage.store.commit(when=when, puts=puts), "a put with a dead lease")
        same(lease, error.lease, "the lease that was lost")
    same([], await keys(stage.store), "the keys after the refusals")


@case()
async def a_revoked_lease_takes_its_keys_at_once(stage: Stage) -> None:
    """`revoke` deletes the keys of a lease in one change. Then the keys are absent, and the lease is not alive."""
    lease = await _long(stage)
    made = await make(stage.store, "a", "b", lease=lease.id)
    await stage.store.revoke(lease.id)
    same([], await keys(stage.store), "the keys after the revocation")
    await make(stage.store, "a")
    same(frozenset(), await stage.store.renew([lease.id]), "the leases that are alive")
    changes = await (await stage.watch(after=made)).shows(made + 2)
    gone = (Event(key="a", value=None), Event(key="b", value=None))
    same([gone, (Event(key="a", value=b""),)], [change.events for change in changes], "the changes")


@case()
async def revoking_twice_is_no_error(stage: Stage) -> None:
    """To revoke a lease that has ended, or that never existed, changes nothing."""
    lease = await _long(stage)
    await stage.store.revoke(lease.id)
    before = (await stage.store.scan("")).revision
    await stage.store.revoke(lease.id)
    await stage.store.revoke(lease.id + 1_000_003)
    same(before, (await stage.store.scan("")).revision, "the revision")


@case()
async def a_compare_sees_the_end_of_a_lease(stage: Stage) -> None:
    """A key deleted with its lease is absent to compares, and its last revision no longer holds."""
    lease = await _long(stage)
    made = await make(stage.store, "seat", lease=lease.id)
    await stage.store.revoke(lease.id)
    put = [Put(key="seat", value=b"next")]
    outcome = await stage.store.commit(when=[Unchanged(key="seat", revision=made)], puts=put)
    same("Refused", type(outcome).__name__, "a compare with the revision of a key that is gone")
    taken = committed(await stage.store.commit(when=[Absent(key="seat")], puts=put))
    holds(taken > made + 1, "the end of the lease had a revision of its own, between the two")


@case()
async def ids_of_leases_are_not_used_again(stage: Stage) -> None:
    """No lease gets the id of an earlier lease, also when that one has ended."""
    seen: list[int] = []
    handles = [stage.store, await stage.connect()]
    for turn in range(10):
        lease = await handles[turn % 2].grant(ttl_seconds=stage.ttl_seconds)
        seen.append(lease.id)
        if turn % 3:
            await handles[0].revoke(lease.id)
    same(len(seen), len(set(seen)), "ids among 10 leases")


@case()
async def a_lease_can_have_an_id_of_its_callers_choice(stage: Stage) -> None:
    """A lease with a chosen id is a lease like any other. To grant it again while it is alive changes nothing."""
    chosen, other = 1 + randbits(48), await stage.connect()
    for store in (stage.store, other):
        lease = await store.grant(ttl_seconds=min(_LONG_SECONDS, stage.able.max_ttl_seconds), lease=chosen)
        same(chosen, lease.id, "the id of the lease")
    await make(stage.store, "member", lease=chosen)
    same({chosen}, await other.renew([chosen]), "the leases that are alive")
    holds((await _long(stage)).id != chosen, "no other lease gets the id")
    await other.revoke(chosen)
    same([], await keys(stage.store), "the keys after the end of the lease")
    for wrong in (0, -1, 2**63, True, "7"):
        granted = stage.store.grant(ttl_seconds=stage.ttl_seconds, lease=wrong)  # type: ignore[arg-type]
        await raises(InvalidInput, granted, f"a lease with the id {wrong!r}")


@case()
async def a_time_to_live_that_cannot_be_kept_is_refused(stage: Stage) -> None:
    """A time to live is invalid if it is 0, below 0, outside the limits of the store, or no number."""
    able = stage.able
    too_short, too_long = able.min_ttl_seconds * 0.99, able.max_ttl_seconds * 1.01
    for ttl_seconds in (0, -1, too_short, too_long, 1e18, float("nan"), float("inf"), True, "2"):
        granted = stage.store.grant(ttl_seconds=ttl_seconds)  # type: ignore[arg-type]
        await raises(InvalidInput, granted, f"a time to live of {ttl_seconds!r} s")
    longest = await stage.store.grant(ttl_seconds=able.max_ttl_seconds)
    await stage.store.revoke(longest.id)


@case("durable")
async def a_crash_ends_no_lease_early(stage: Stage) -> None:
    """A lease granted before kill -9 of the store lives on after it: it can be renewed and has its keys."""
    lease = await _long(stage)
    await make(stage.store, "member", lease=lease.id)
    await stage.crash()
    same({"member": b""}, await stage.keys("member"), "the item after the crash")
    same({lease.id}, await stage.available(lambda: stage.store.renew([lease.id])), "the leases that are alive")
    next_lease = await _long(stage)
    holds(next_lease.id != lease.id, "no lease gets the id of one from before the crash")


@case()
async def the_lease_of_a_killed_process_ends(stage: Stage) -> None:
    """When the holder of a lease is killed, the lease ends in time, and every watch sees its key go."""
    tape = await stage.watch(after=(await stage.store.scan("")).revision)
    member = await stage.member("hold", f"{stage.ttl_seconds}")
    await member.works(3)
    holder = await item(stage.store, "member")
    await member.kill()
    await tape.shows((holder.revision if holder else 0) + 1, within=stage.ttl_seconds + LATENESS_SECONDS)
    same([], await keys(stage.store), "the keys after the lease")
