"""Processes: many use one store, some are killed, some fork."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import cast

from apportion.errors import ApportionError, StoreClosed
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import LATENESS_SECONDS, Stage
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.steps import make
from apportion.stores import Absent, CoordinationStore, Put


@case()
async def increments_by_many_processes_add_up(stage: Stage) -> None:
    """Processes that raise one counter by compare-and-set lose no increment, and a watch shows each one."""
    tape = await stage.watch("counter", after=(await stage.store.scan("")).revision)
    members = [await stage.member("increment", "12") for _ in range(3)]
    for member in members:
        await member.leaves()
    same({"counter": b"36"}, await stage.keys(), "the counter")
    changes = await tape.shows((await stage.unchanged("counter")).revision)
    numbers = [event.value for change in changes for event in change.events]
    same([b"%d" % number for number in range(1, 37)], numbers, "the counter as a watch showed it")


@case()
async def a_process_killed_in_a_commit_leaves_all_of_it_or_nothing(stage: Stage) -> None:
    """Kill -9 amid commits leaves no part of a commit, loses no acknowledged commit, and blocks no other process."""
    tape = await stage.watch("pair/", after=(await stage.store.scan("")).revision)
    for turn in range(3):
        member = await stage.member("pairs", "pair/")
        await member.works(3 + turn)
        await member.kill()
        began = stage.clock.elapsed()
        await make(stage.store, f"free/{turn}")
        waited = stage.clock.elapsed() - began
        holds(waited < LATENESS_SECONDS, f"nobody waits for the dead: {waited:.1f} s")
        found = await stage.keys("pair/")
        same(1, len(set(found.values())), "numbers in the pair")
        holds(int(found["pair/left"]) >= int(member.said[-1]), f"{member.said[-1]} was acknowledged: {found}")
    changes = await tape.shows((await stage.unchanged("pair/left")).revision)
    same({("pair/left", "pair/right")}, {tuple(each.key for each in change.events) for change in changes}, "changes")


@case()
async def a_forked_child_holds_a_dead_handle(stage: Stage) -> None:
    """In a forked child every call raises `StoreClosed`, closing does nothing, and the parent's handle goes on."""
    tape = await stage.watch(after=await make(stage.store, "before"))
    lease = await stage.store.grant(ttl_seconds=min(60.0, stage.able.max_ttl_seconds))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, _dead(stage.store).encode())
        finally:
            os._exit(0)  # the child must not run any exit handler of the parent
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = await asyncio.to_thread(pipe.read)
    os.waitpid(child, 0)
    same("dead", said, "the handle in the child")
    await tape.shows(await make(stage.store, "after"))
    same({lease.id}, await stage.store.renew([lease.id]), "the leases that are alive")
    same(["after", "before"], list(await stage.keys()), "the keys")


def _dead(store: CoordinationStore) -> str:
    """Return "dead" if every call is refused before it waits; else return the first call that was not."""
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "scan": lambda: store.scan(""),
        "commit": lambda: store.commit(when=[Absent(key="child")], puts=[Put(key="child", value=b"")]),
        "watch": lambda: anext(store.watch("", after=0)),
        "grant": lambda: store.grant(ttl_seconds=store.capabilities().min_ttl_seconds),
        "renew": lambda: store.renew([1]),
        "revoke": lambda: store.revoke(1),
    }
    for name, call in calls.items():
        said = _said(call())
        if said != "StoreClosed":
            return f"{name}: {said}"
    closed = _said(store.close())
    return "dead" if closed == "answered" else f"close: {closed}"


def _said(call: Awaitable[object]) -> str:
    """Take one step of a call, without a loop: the loop belongs to the parent."""
    try:
        cast("Coroutine[object, None, object]", call).send(None)
    except StopIteration:
        return "answered"
    except StoreClosed:
        return "StoreClosed"
    except (ApportionError, RuntimeError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "waits"
