"""The explorer finds nothing in the ledger of tasks, and something where one of its compares is gone."""

import pytest

from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_records import receipt_of
from models.__main__ import SMALL_TASKS
from models.explorer import Explorer
from models.tasks import TaskBounds, Tasks

FEW = TaskBounds(tasks=1, ends=1, losses=1, failures=1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_found_in_the_ledger_of_tasks():
    report = Explorer(Tasks(SMALL_TASKS)).run()
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states >= 100_000


def test_nothing_is_found_among_few_tasks():
    report = Explorer(Tasks(FEW)).run()
    assert ("", 0) == (report.broken, report.stuck)
    assert report.states > 1_000


def held(compare):
    """Return a ledger's look-up of a claim by another compare."""

    def _held(ledger, receipt):
        task = ledger.open.get(receipt.task)
        return task if task is not None and task.session and compare(receipt_of(task), receipt) else None

    return _held


@pytest.mark.parametrize(
    ("compare", "bounds"),
    [
        (lambda found, asked: found.session == asked.session, FEW),
        (lambda found, asked: found.attempt == asked.attempt, TaskBounds(1, 0, 0, 0, restores=1)),
    ],
    ids=["without the attempt", "without the session"],
)
def test_a_ledger_that_compares_less_is_found(monkeypatch, compare, bounds):
    assert "" == Explorer(Tasks(bounds)).run().broken
    monkeypatch.setattr(TaskLedger, "_held", held(compare))
    assert "SettledByReceipt" in Explorer(Tasks(bounds)).run().broken


def test_a_ledger_that_retakes_from_the_living_is_found(monkeypatch):
    turn = TaskLedger.turn

    def _turn(ledger, worker, settlements, *, want=0, alive, now):
        return turn(ledger, worker, settlements, want=want, alive={worker.session} & set(alive), now=now)

    monkeypatch.setattr(TaskLedger, "turn", _turn)
    assert "RetakenOnlyAfterTheEnd" in Explorer(Tasks(FEW)).run().broken


def test_a_ledger_that_asks_for_no_lease_is_found(monkeypatch):
    turn = TaskLedger.turn

    def _turn(ledger, worker, settlements, *, want=0, alive, now):
        return turn(ledger, worker, settlements, want=want, alive={worker.session, *alive}, now=now)

    monkeypatch.setattr(TaskLedger, "turn", _turn)
    assert Explorer(Tasks(FEW)).run().broken


def test_a_ledger_that_retakes_nothing_is_found(monkeypatch):
    monkeypatch.setattr(TaskLedger, "_retaken", lambda *_: iter(()))
    assert "cannot" in Explorer(Tasks(FEW)).run().broken
