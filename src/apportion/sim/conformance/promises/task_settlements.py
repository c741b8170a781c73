"""Settlements: a claim ends under its own receipt alone, once, with the counts that its fate says."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from apportion.errors import NotPromised
from apportion.guards.connections import run
from apportion.sim.conformance.context import TRANSACTIONS
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.rig import Impossible
from apportion.sim.conformance.task_stage import FATES, TaskStage, done, ended, task_case
from apportion.stores.task_api import TaskTransactions
from apportion.stores.task_control import Redrive
from apportion.stores.task_values import MOST_CRASHES, Claim, Fate, Note, Receipt, Settlement


@task_case()
async def a_receipt_of_no_open_claim_is_refused_and_changes_nothing(stage: TaskStage) -> None:
    """A receipt with another task, attempt or session is refused for every fate, and the claim stays open."""
    await stage.add(stage.new(), stage.new())
    worker, other = await stage.worker(), await stage.worker()
    (claim,) = await stage.claim(worker)
    (foreign,) = await stage.claim(other)
    for change in ({"task": foreign.task}, {"task": "0"}, {"attempt": 2}, {"attempt": 0}, {"session": other.session}):
        await stage.refused(worker, claim.receipt._replace(**change))
    await stage.settle(worker, done(claim))
    await stage.settle(other, done(foreign))


@task_case()
async def a_claim_is_settled_once(stage: TaskStage) -> None:
    """The receipt of a claim that was settled is refused, whatever its fate was, also in the same turn."""
    worker = await stage.worker()
    for fate in FATES:
        await stage.add(stage.new())
        (claim,) = await stage.claim(worker)
        settlement = ended(claim, fate)._replace(delay_ms=60_000)
        answer = await stage.tasks.turn(worker, [settlement, settlement])
        same((claim.receipt,), answer.refused, f"the receipts that were refused beside {fate}")
        await stage.refused(worker, claim.receipt)


@task_case()
async def a_receipt_before_the_last_claim_is_refused(stage: TaskStage) -> None:
    """Once a task is claimed again, its old receipts are refused: after a takeover, a release or a redrive."""
    retaken, again, redriven = await stage.add(*[stage.new() for _ in range(3)])
    first, second = await stage.worker(), await stage.worker()
    (stale,) = await stage.claim(first)
    await stage.end(first)
    await stage.claim(second, want=2)
    await stage.refused(second, stale.receipt)
    (mine,) = [row for row in await stage.rows("claimed") if row.id == again]
    stale = stale._replace(receipt=Receipt(task=again, attempt=1, session=second.session))
    await stage.settle(second, ended(stale, "released"))
    same([redriven], [claim.task for claim in await stage.claim(second)], "the claim before the released task")
    same([again], [claim.task for claim in await stage.claim(second)], "the task that was released")
    await stage.refused(second, stale.receipt._replace(attempt=mine.attempt))
    stale = stale._replace(receipt=stale.receipt._replace(task=redriven))
    await stage.settle(second, ended(stale, "dead"))
    await stage.tasks.control(Redrive(tasks=(redriven,)))
    same([redriven], [claim.task for claim in await stage.claim(second)], "the task that was redriven")
    await stage.refused(second, stale.receipt)
    same(["claimed"] * 3, await stage.states(retaken, again, redriven), "the states")


@task_case()
async def of_two_settlements_of_one_claim_at_once_one_counts(stage: TaskStage) -> None:
    """Handles that settle one claim at the same time are told that one of them counted."""
    other, worker = await stage.handle(), await stage.worker()
    for _ in range(10):
        await stage.add(stage.new())
        (claim,) = await stage.claim(worker)
        calls = [each.turn(worker, [done(claim)]) for each in (stage.tasks, other)]
        answers = await asyncio.gather(*calls)
        same(1, sum(len(answer.refused) for answer in answers), "settlements that were refused")


@task_case()
async def one_turn_settles_and_claims(stage: TaskStage) -> None:
    """A turn ends old claims and makes new ones; a receipt that is refused stops neither."""
    ids = await stage.add(*[stage.new() for _ in range(3)])
    worker = await stage.worker()
    (first,) = await stage.claim(worker)
    unknown = Settlement(receipt=first.receipt._replace(attempt=9), fate="retry")
    answer = await stage.tasks.turn(worker, [unknown, done(first)], want=5)
    same((unknown.receipt,), answer.refused, "the receipts that were refused")
    same(list(ids[1:]), [claim.task for claim in answer.claims], "the claims")
    same(["missing", "claimed", "claimed"], await stage.states(*ids), "the states")


@task_case()
async def a_claim_of_an_ended_session_is_settled_until_it_is_retaken(stage: TaskStage) -> None:
    """The end of a session alone refuses no receipt: the claim is open until another session takes it over."""
    await stage.add(stage.new())
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    await stage.end(worker)
    await stage.settle(worker, done(claim))
    same((), await stage.rows(), "the tasks after the settlement")


@task_case()
async def a_result_is_kept_and_a_task_without_one_is_gone(stage: TaskStage) -> None:
    """A done task with a result can be read, and its result too. A done task without a result is missing."""
    kept, gone, empty = await stage.add(*[stage.new() for _ in range(3)])
    worker = await stage.worker()
    claims = await stage.claim(worker, want=3)
    results = (b"\0result\xff", None, b"")
    await stage.settle(worker, *[done(each)._replace(result=result) for each, result in zip(claims, results)])  # noqa: B905
    same(["done", "missing", "done"], await stage.states(kept, gone, empty), "the states")
    row = await stage.row(kept)
    same(results[0], row and row.result, "the result")


async def _settled(stage: TaskStage, *fates: Fate) -> Claim:
    """Give a task these fates, one claim each; return the last of these claims."""
    await stage.add(stage.new())
    worker = await stage.worker()
    for fate in fates:
        claim = await stage.claimed(worker)
        await stage.settle(worker, ended(claim, fate)._replace(reason=f"it was {fate}"))
    return claim


async def _counts(stage: TaskStage, claim: Claim) -> tuple[object, ...]:
    row = await stage.row(claim.task)
    return () if row is None else (row.state, row.failures, row.crashes, row.deaths, row.reason)


@task_case()
async def a_failed_run_counts_and_waits_for_its_delay(stage: TaskStage) -> None:
    """A failure adds one to the failures, clears crashes and deaths, keeps the reason, and delays the task."""
    claim = await _settled(stage, "retry", "crashed", "retry")
    same(("ready", 2, 0, 0, "it was retry"), await _counts(stage, claim), "the counts")
    worker = await stage.worker()
    claim = await stage.claimed(worker)
    await stage.settle(worker, ended(claim, "retry")._replace(delay_ms=60_000))
    same(("delayed", 3, 0, 0, ""), await _counts(stage, claim), "the counts after a delay")
    same((), await stage.claim(worker), "the claims before it is due")


@task_case()
async def a_released_run_counts_as_nothing(stage: TaskStage) -> None:
    """A release adds to no count and clears none; its reason is kept."""
    claim = await _settled(stage, "retry", "crashed", "released")
    same(("ready", 1, 1, 0, "it was released"), await _counts(stage, claim), "the counts")


@task_case()
async def a_run_that_came_to_its_own_end_clears_crashes_and_deaths(stage: TaskStage) -> None:
    """A task that wants to run again later has not ended its process, so its crashes and deaths count from 0 again."""
    claim = await _settled(stage, "retry", "crashed")
    worker = await stage.worker()
    claim = await stage.claimed(worker)
    await stage.settle(worker, ended(claim, "released")._replace(has_run=True))
    same(("ready", 1, 0, 0, ""), await _counts(stage, claim), "the counts")


@task_case()
async def a_run_that_failed_for_the_last_time_is_a_dead_letter(stage: TaskStage) -> None:
    """A dead task is kept with its reason and its arguments, and claimed no more."""
    claim = await _settled(stage, "dead")
    same(("dead", 1, 0, 0, "it was dead"), await _counts(stage, claim), "the counts")
    row = await stage.row(claim.task)
    same(b"[]", row and row.arguments, "the arguments of the dead task")
    same((), await stage.claim(await stage.worker()), "the claims")


@task_case()
async def a_task_whose_child_processes_ended_twice_in_a_row_is_dead(stage: TaskStage) -> None:
    """A crash makes a task a suspect, and a second one in a row condemns it. A failure in between clears the crash."""
    claim = await _settled(stage, "crashed", "retry", "crashed")
    same(("ready", 1, 1, 0, "it was crashed"), await _counts(stage, claim), "the counts")
    worker = await stage.worker()
    claim = await stage.claimed(worker)
    holds(claim.is_suspect, "a task is a suspect after the end of its child process")
    await stage.settle(worker, ended(claim, "crashed"))
    same(("dead", 1, MOST_CRASHES, 0, ""), await _counts(stage, claim), "the counts after the second crash")


@task_case()
async def a_note_is_read_until_the_next_attempt_and_refused_after_it(stage: TaskStage) -> None:
    """Progress counts under the receipt of the open claim alone; the next attempt begins without it."""
    (task,) = await stage.add(stage.new())
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    note = Note(receipt=claim.receipt, progress=0.5, text="hälf")
    same((), (await stage.tasks.beat(worker.session, [note])).refused, "the notes that were refused")
    row = await stage.row(task)
    same((0.5, "hälf"), row and (row.progress, row.note), "the note")
    for change in ({"attempt": 2}, {"session": worker.session + 1}, {"task": "0"}):
        stale = replace(note, receipt=claim.receipt._replace(**change), progress=0.9)
        same((stale.receipt,), (await stage.tasks.beat(worker.session, [stale])).refused, "the refused notes")
    same(row, await stage.row(task), "the task after the notes that were refused")
    await stage.settle(worker, ended(claim, "released"))
    await stage.claim(worker)
    same((note.receipt,), (await stage.tasks.beat(worker.session, [note])).refused, "the notes of the old attempt")
    row = await stage.row(task)
    same((0.0, ""), row and (row.progress, row.note), "the note at the next attempt")


@task_case()
async def a_claim_is_completed_in_a_transaction_of_the_database(stage: TaskStage) -> None:
    """The statement of completion counts with the commit, under the open receipt alone; a rollback leaves the claim."""
    transactions = _transactions(stage)
    await stage.add(stage.new())
    worker = await stage.worker()
    (claim,) = await stage.claim(worker)
    receipt = claim.receipt
    for change in ({"task": "0"}, {"attempt": 2}, {"session": worker.session + 1}):
        stale = receipt._replace(**change)
        same([], await asyncio.to_thread(_completed, transactions, stale), "rows")
    same(1, len(await asyncio.to_thread(_rolled_back, transactions, receipt)), "rows before a rollback")
    same(["claimed"], await stage.states(claim.task), "the state after a rollback")
    same(1, len(await asyncio.to_thread(_completed, transactions, receipt)), "rows of the completion")
    same(["missing"], await stage.states(claim.task), "the state after the commit")
    await stage.refused(worker, receipt)


def _transactions(stage: TaskStage) -> TaskTransactions:
    try:
        stage.tasks.transactions.completion(Receipt(task="0", attempt=1, session=1))
    except NotPromised as error:
        raise Impossible(TRANSACTIONS, "a store of this kind has no database") from error
    return stage.tasks.transactions


class _UndoneError(Exception):
    """A handler fails after its completion."""


def _completed(transactions: TaskTransactions, receipt: Receipt) -> list[Any]:
    """Complete a claim in a transaction that commits; return the rows of the statement."""
    statement = transactions.completion(receipt)
    with transactions.begin() as connection:
        return run(connection, statement.sql, statement.values).fetchall()


def _rolled_back(transactions: TaskTransactions, receipt: Receipt) -> list[Any]:
    """Complete a claim in a transaction that fails afterwards; return the rows of the statement."""
    rows: list[Any] = []
    statement = transactions.completion(receipt)
    with suppress(_UndoneError), transactions.begin() as connection:
        rows = run(connection, statement.sql, statement.values).fetchall()
        raise _UndoneError
    return rows
