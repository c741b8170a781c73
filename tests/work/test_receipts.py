"""The matrix of receipts: each verb × each store × each way in which a claim is no longer the last one of its task.

A second process sends the verb from the recorded text of the receipt. It is refused with `ClaimLost`, and nothing
changes. An old run that extends moves its own limit, and nothing in the store. (A memory store has no second process:
another handle sends there.)
"""

import asyncio
import json
import subprocess
import sys
from uuid import uuid4

import pytest

from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.task_stage import TaskStage, ended
from apportion.stores import administration
from apportion.stores.task_control import Redrive
from tests.stores.rigs import rig_of
from tests.work.receipt_sender import VERBS, sent

STORES = ["memory", "sqlite", "postgres"]
LATER = ["retaken", "redriven", "restored", "reclaimed by its session"]
REFUSED = dict.fromkeys(VERBS, ("ClaimLost", True))
EXTENDED = {"extend": ("its own limit", True)}  # it has no receipt to send: the session renews the claim


def verbs_of(store):
    """Return the verbs of a store; a memory store has no transactions of handlers."""
    return [verb for verb in VERBS if (verb, store) != ("transaction", "memory")]


def marked(*values):
    """Return the values of a cell, with the mark of its store and a name."""
    marks = [pytest.mark.slow] if "postgres" in values else []
    return pytest.param(*values, marks=marks, id="-".join(values).replace(" ", "_"))


CELLS = [marked(verb, store, later) for store in STORES for later in LATER for verb in verbs_of(store)]


@pytest.fixture(scope="module")
def rigs():
    """The rigs of the stores, each made when it is first asked for."""
    made = {}

    def _rig(store):
        if store not in made:
            made[store] = rig_of(store)()
        return made[store]

    yield _rig
    for rig in made.values():
        asyncio.run(rig.close())


class Sender:
    """The second process, or another handle in this process."""

    def __init__(self, stage, *, is_own_process):
        self.stage, self.process = stage, None
        if is_own_process:
            command = [sys.executable, "-m", "tests.work.receipt_sender"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    async def send(self, verb, text):
        if self.process is None:
            return await sent(await self.stage.connect_tasks(), verb, text)
        return await asyncio.to_thread(self._sent, verb, text)

    def _sent(self, verb, text):
        self.process.stdin.write(json.dumps([self.stage.rig.url(self.stage.namespace), verb, text]) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait(20)


async def made_stale(tasks, later, verbs):
    """Claim a task for each verb, and let each be claimed again; return the old receipts as texts, and the heir."""
    new = [tasks.new() for _ in verbs]
    await tasks.add(*new)
    first, second = await tasks.worker(), await tasks.worker()
    if later == "restored":
        await tasks.stage.rig.save()
        first = await tasks.stage.available(tasks.worker)
    claims = await tasks.stage.available(lambda: tasks.claim(first, want=len(verbs)))
    assert [each.id for each in new] == [claim.task for claim in claims]
    if later == "retaken":
        await tasks.end(first)
    elif later == "redriven":
        await tasks.settle(first, *[ended(claim, "dead") for claim in claims])
        await tasks.tasks.control(Redrive(tasks=tuple(claim.task for claim in claims)))
        second = first
    elif later == "restored":
        second = await restored(tasks)
    else:
        await tasks.settle(first, *[ended(claim, "released") for claim in claims])
        second = first
    again = await tasks.claim(second, want=2 * len(verbs))
    assert sorted(claim.task for claim in claims) == sorted(claim.task for claim in again)
    receipts = [claim.receipt for claim in claims]
    return [f"{each.task}.{each.attempt}.{each.session}" for each in receipts], second, again


async def restored(tasks):
    """Put the copy back, tell it, and return a worker of the new life."""
    stage = tasks.stage
    await stage.rig.restore()
    if stage.able.durable:
        await administration(stage.rig.url(stage.namespace)).restored()
    await stage.available(lambda: stage.store.scan(""))
    await stage.available(tasks.rows)
    return await tasks.worker()


async def outcomes(rig, later, verbs, *, is_own_process=True):
    """Return for each verb its outcome, and whether the task is as it was before; settle all claims in the end."""
    async with Stage(rig, f"receipts-{uuid4().hex}") as stage:
        tasks, found = TaskStage(stage, await stage.connect_tasks()), {}
        texts, heir, claims = await made_stale(tasks, later, verbs)
        sender = Sender(stage, is_own_process=is_own_process and stage.able.durable)
        try:
            for verb, text in zip(verbs, texts, strict=True):
                before = await tasks.rows()
                found[verb] = (await sender.send(verb, text), before == await tasks.rows())
        finally:
            sender.close()
        refused = (await tasks.tasks.turn(heir, [ended(claim, "done") for claim in claims])).refused
        return found, refused


@pytest.fixture(scope="module")
def cells(rigs):
    """The outcomes of a store and a way, made once for all verbs."""
    known = {}

    def _found(store, later):
        if (store, later) not in known:
            known[store, later] = asyncio.run(outcomes(rigs(store), later, verbs_of(store)))
        return known[store, later]

    return _found


@pytest.mark.parametrize(("verb", "store", "later"), CELLS)
def test_an_old_receipt_is_refused_and_changes_nothing(cells, verb, store, later):
    found, _ = cells(store, later)
    assert (REFUSED | EXTENDED)[verb] == found[verb]


@pytest.mark.parametrize(("store", "later"), [marked(store, later) for store in STORES for later in LATER])
def test_the_claims_of_the_heir_are_all_open_in_the_end(cells, store, later):
    _, refused = cells(store, later)
    assert () == refused
