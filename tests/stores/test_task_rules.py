"""The tasks of a store follow the task ledger, call by call, over random histories: here those of an SQLite file."""

import random
import re
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from apportion.errors import InvalidInput, KeyedTasksOpen, LeaseLost
from apportion.model.epoch import FencingToken
from apportion.stores import task_admin
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, OwnerOfLane
from apportion.stores.lanes.values import AgreePartitions, OwnedLane, ResizePartitions
from apportion.stores.sqlite import schema, task_statements
from apportion.stores.sqlite import statements as lease_sql
from apportion.stores.sqlite import task_admin as sqlite_admin
from apportion.stores.sqlite import task_ledger as sqlite_rules
from apportion.stores.sqlite import task_once as sqlite_once
from apportion.stores.sqlite.task_statements import KEY_TABLES
from apportion.stores.sqlite.task_transactions import SqliteTransactions
from apportion.stores.sqlite.tasks import make_tables
from apportion.stores.task_control import Cancel, Hasten, Listing, Pause, Purge, Redrive, SetLimit
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import KEPT_MS, NewTask, Note, Receipt, Settlement, Worker

QUEUES, KEYS = ("a", "b"), "xyz"
TOKEN = FencingToken(resource="", holder="h", incarnation=1, epoch=1)
STATES = ("ready", "delayed", "claimed", "done", "dead", "cancelled")
FATES = ("done", "done", "retry", "dead", "released", "crashed", "cancelled")


class SqliteTwin:
    """The rules in an SQLite file, called at times of the test."""

    def __init__(self):
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for statement in (*schema.statements(since=0), *task_statements.TABLES, *KEY_TABLES):
            self.connection.execute(statement)

    def enqueue(self, new, now):
        return sqlite_rules.enqueue(self.connection, new, now)

    def insert(self, new, now):
        """Enqueue by the statements for a transaction of the caller's, at a time of the test."""
        life = self.connection.execute("SELECT incarnation FROM meta").fetchone()[0]
        steps = SqliteTransactions(Path("work.db"), "work.db", life).insertion(new)
        step = next(steps)
        rows = [(now, life)]
        try:
            while True:
                step = steps.send(rows)
                rows = self.connection.execute(step.sql, step.values).fetchall()
        except StopIteration as end:
            return end.value

    def turn(self, worker, settlements, *, want, now):
        turn = partial(sqlite_rules.turn, self.connection, worker, settlements, want=want, now=now)
        self.connection.execute("SAVEPOINT turn")
        try:
            return turn()
        except sqlite_rules.NotAllDone:
            self.connection.execute("ROLLBACK TO turn")
            return turn(is_one_by_one=True)
        finally:
            self.connection.execute("RELEASE turn")

    def beat(self, session, notes):
        return sqlite_rules.beat(self.connection, session, notes)

    def once(self, step, now):
        return sqlite_once.once(self.connection, step, now)

    def control(self, command, now):
        return sqlite_admin.control(self.connection, command, now)

    def rows(self, listing):
        return sqlite_admin.rows(self.connection, listing)

    def overview(self, now):
        return sqlite_admin.overview(self.connection, now)

    def answer(self, question, now):
        return sqlite_admin.answer(self.connection, question, now)

    def begin(self, session):
        self.connection.execute(lease_sql.ADD_LEASE, (session, 2.0))

    def end(self, session):
        self.connection.execute(lease_sql.END_LEASE, (session,))


class Twins:
    """A ledger and a store that get the same calls, and must give the same answers."""

    def __init__(self, seed, other):
        self.draw, self.now = random.Random(seed), 1_000_000
        self.ledger, self.alive = TaskLedger(), {11, 12, 13}
        self.sessions = [11, 12, 13]
        self.other = other
        for session in self.alive:
            self.other.begin(session)
        self.ids, self.receipts, self.epoch = [], [], 1

    def step(self):
        """Make one random call on both."""
        self.now += self.draw.choice([0, 1, 300, 5_000])
        turns, rest = [self.turn] * 3, [self.enqueue, self.beat, self.once, self.control, self.end]
        self.draw.choice([*turns, *rest])()
        assert self.state(task_admin.rows(self.ledger, EVERYTHING)) == self.state(self.other.rows(EVERYTHING))
        page = self.page()
        assert self.state(task_admin.rows(self.ledger, page)) == self.state(self.other.rows(page))
        assert task_admin.overview(self.ledger, alive=self.alive, now=self.now) == self.other.overview(self.now)
        question = self.question()
        expected = task_admin.answer(self.ledger, question, alive=self.alive, now=self.now)
        assert expected == self.other.answer(question, self.now)

    def question(self):
        """Return a question about keys."""
        draw = self.draw
        return draw.choice(
            [
                BusiestKeys(queue=draw.choice(QUEUES), most=2),
                HeadOfKey(queue=draw.choice(QUEUES), key=draw.choice(KEYS)),
                OwnerOfLane(queue=draw.choice(QUEUES), partition=draw.choice([0, 1])),
            ]
        )

    def page(self):
        """Return the listing of a page after some ended task, or of the first page."""
        ends = [(each.at, each.task.id) for each in self.ledger.ended.values()]
        return replace(EVERYTHING, after_ended=self.draw.choice([None, *sorted(ends)]), most=self.draw.randint(1, 5))

    @staticmethod
    def state(rows):
        """Positions are compared by their order alone."""
        return [replace(row, position=0) for row in rows]

    def both(self, one, other):
        """Return the answer of both, or raise the error that both raise."""
        try:
            answer = one()
        except (LeaseLost, InvalidInput, KeyedTasksOpen) as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                other()
            return None
        assert answer == other()
        return answer

    def enqueue(self):
        draw, now = self.draw, self.now
        new = [self.new() for _ in range(draw.randint(1, 3))]
        enqueue = draw.choice([self.other.enqueue, self.other.insert])
        self.both(lambda: self.ledger.enqueue(new, now=now), lambda: enqueue(new, now))

    def new(self):
        draw = self.draw
        self.ids.append(f"t{len(self.ids)}" if draw.random() < 0.9 or not self.ids else draw.choice(self.ids))
        return NewTask(
            id=self.ids[-1],
            queue=draw.choice(QUEUES),
            name=draw.choice("fg"),
            arguments=draw.randbytes(3),
            **draw.choice([self.in_lane, self.of_key])(),
            expires_at=draw.choice([None, None, self.now + 500]),
            unique=draw.choice([None, None, "u", "v"]),
            on_duplicate=draw.choice(["keep", "replace"]),
            most_deaths=draw.choice([None, 2, 5]),
        )

    def in_lane(self):
        draw = self.draw
        delays = {"delay_ms": draw.choice([0, 0, 0, 400, 9_000])}
        return {
            "lane": draw.choice([0, 2, 2, 3]),
            "due_at": draw.choice([None, None, None, self.now + 2_000, 5]),
        } | delays

    def of_key(self):
        key = self.draw.choice(KEYS)
        return {"lane": 16 + KEYS.index(key) % 2, "key": key, "on_dead": self.draw.choice(["skip", "block"])}

    def lanes(self):
        """Return owned lanes: mostly under the newest token, and now and then under an older one."""
        draw = self.draw
        self.epoch += draw.random() < 0.1
        epochs = [max(1, self.epoch - draw.choice([0, 0, 0, 0, 1])) for _ in range(4)]
        lanes = [(queue, partition) for queue in QUEUES for partition in (0, 1)]
        return tuple(
            OwnedLane(queue=queue, partition=partition, token=replace(TOKEN, epoch=epoch, holder=draw.choice("hhhk")))
            for (queue, partition), epoch in zip(lanes, epochs, strict=True)
            if draw.random() < 0.8
        )

    def worker(self):
        former = tuple(each for each in self.sessions if each not in self.alive and self.draw.random() < 0.2)
        return Worker(
            session=self.draw.choice(self.sessions[-4:]),
            queues=self.draw.choice([QUEUES, ("a",)]),
            name="w",
            former=former if self.draw.random() < 0.3 else (),
            lanes=self.lanes(),
        )

    def turn(self):
        draw, now, worker = self.draw, self.now, self.worker()
        settlements = [
            Settlement(
                receipt=self.receipt(),
                fate=draw.choice(FATES),
                reason=draw.choice(["", "why"]),
                delay_ms=draw.choice([0, 700]),
                result=draw.choice([None, b"r"]),
            )
            for _ in range(draw.randint(0, 3))
        ]
        want = draw.choice([0, 1, 3, 20])
        turn = self.both(
            lambda: self.ledger.turn(worker, settlements, want=want, alive=self.alive, now=now),
            lambda: self.other.turn(worker, settlements, want=want, now=now),
        )
        if turn is not None:
            self.receipts += [claim.receipt for claim in turn.claims]

    def receipt(self):
        if not self.receipts:
            return Receipt(task="t0", attempt=1, session=11)
        receipt = self.draw.choice(self.receipts[-6:])
        change = self.draw.choice([{}, {}, {}, {"attempt": receipt.attempt + 1}, {"session": 12}, {"task": "t1"}])
        return receipt._replace(**change)

    def beat(self):
        session = self.draw.choice(self.sessions)
        notes = [Note(receipt=self.receipt(), progress=0.5, text="half") for _ in range(self.draw.randint(0, 2))]
        self.both(lambda: self.ledger.beat(session, notes), lambda: self.other.beat(session, notes))

    def once(self):
        """Begin, take over or end one of few entries."""
        draw, now = self.draw, self.now
        step = OnceStep(
            scope="q",
            key=draw.choice("kl"),
            receipt=self.receipt(),
            value=draw.choice([None, None, b"7"]),
            instead_of=draw.choice([None, self.receipt()]),
        )
        self.both(
            lambda: self.ledger.once(step, alive=self.alive, now=now),
            lambda: self.other.once(step, now),
        )

    def control(self):
        draw, now = self.draw, self.now
        some = tuple(draw.choices(self.ids, k=3)) if self.ids else ()
        command = draw.choice(
            [
                Cancel(tasks=some),
                Redrive(tasks=some),
                Hasten(tasks=some),
                Purge(queue="b", states=tuple(draw.choices(STATES, k=2))),
                Pause(queue="b", is_paused=draw.random() < 0.4),
                SetLimit(queue="a", open_claims=draw.choice([None, 1, 3]), rate=draw.choice([None, 2]), per_ms=4_000),
                AgreePartitions(queue="b", partitions=draw.choice([4, 5])),
                ResizePartitions(queue="b", partitions=draw.choice([4, 5])),
            ]
        )
        self.both(
            lambda: task_admin.control(self.ledger, command, now=now),
            lambda: self.other.control(command, now),
        )

    def end(self):
        """End a session; another one begins, for no number comes twice."""
        session = self.draw.choice(sorted(self.alive))
        self.alive.discard(session)
        self.other.end(session)
        self.sessions.append(len(self.sessions) + 11)
        self.alive.add(self.sessions[-1])
        self.other.begin(self.sessions[-1])


EVERYTHING = Listing(states=STATES, most=1_000)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 60))])
def test_an_sqlite_file_answers_as_the_ledger_does(seed):
    twins = Twins(seed, SqliteTwin())
    for _ in range(120):
        twins.step()


def test_the_tables_are_made_once_and_only_for_this_version():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in schema.statements(since=0):
        connection.execute(statement)
    assert make_tables(connection) == make_tables(connection)


def an_entry_is_kept_as_long_as_its_task_is_open_and_a_week(other):
    """Fail unless the store keeps entries of the idempotency log so long, and no longer."""
    other.begin(11)
    other.enqueue([NewTask(id=each, queue="a", name="f", arguments=b"") for each in "tu"], 0)
    worker = Worker(session=11, queues=("a",))
    first, second = [each.receipt for each in other.turn(worker, (), want=2, now=0).claims]
    begin = OnceStep(scope="q", key="k", receipt=first)
    assert "begun" == other.once(begin, 0).found
    assert "done" == other.once(replace(begin, value=b"7"), 1).found
    asked = replace(begin, receipt=second)
    assert OnceState(found="done", receipt=first, value=b"7") == other.once(asked, 2 + KEPT_MS)
    assert () == other.turn(worker, [Settlement(receipt=first, fate="done")], want=0, now=3).refused
    assert OnceState(found="done", receipt=first, value=b"7") == other.once(asked, KEPT_MS)
    assert "begun" == other.once(asked, 1 + KEPT_MS).found


def test_an_sqlite_file_keeps_an_entry_as_long_as_its_task_is_open_and_a_week():
    an_entry_is_kept_as_long_as_its_task_is_open_and_a_week(SqliteTwin())


@pytest.mark.parametrize(("fate", "state"), [("dead", "dead"), ("crashed", "dead"), ("released", "delayed")])
def test_a_session_that_lived_brings_back_no_task_that_died_of_another_cause(fate, state):
    ledger = TaskLedger()
    ledger.enqueue([NewTask(id="t", queue="a", name="f", arguments=b"", most_deaths=2)], now=0)
    ledger.turn(Worker(session=1, queues=("a",)), [], want=1, alive={1}, now=1)
    (claim,) = ledger.turn(Worker(session=2, queues=("a",)), [], want=1, alive={2}, now=2).claims
    end = Settlement(receipt=claim.receipt, fate=fate, delay_ms=9_000 if fate == "released" else 0)
    ledger.turn(Worker(session=2, queues=("a",)), [end], alive={2}, now=3)
    if fate == "crashed":  # the second crash condemns it
        (claim,) = ledger.turn(Worker(session=2, queues=("a",)), [], want=1, alive={2}, now=4).claims
        again = end._replace(receipt=claim.receipt)
        ledger.turn(Worker(session=2, queues=("a",)), [again], alive={2}, now=5)
    ledger.turn(Worker(session=3, queues=(), former=(1,)), [], alive={3}, now=6)
    assert [state] == [row.state for row in task_admin.rows(ledger, EVERYTHING)]


def test_a_worker_without_a_claim_is_forgotten_after_its_session():
    ledger = TaskLedger()
    for session in (1, 2):
        ledger.turn(Worker(session=session, queues=("a",)), [], want=1, alive={session}, now=session)
    assert [2] == list(ledger.workers)


def test_a_task_that_is_delayed_by_one_millisecond_is_not_claimed_before():
    ledger, worker = TaskLedger(), Worker(session=1, queues=("a",))
    ledger.enqueue([NewTask(id="t", queue="a", name="f", arguments=b"")], now=0)
    (claim,) = ledger.turn(worker, [], want=1, alive={1}, now=1).claims
    end = Settlement(receipt=claim.receipt, fate="released", delay_ms=1)
    assert () == ledger.turn(worker, [end], want=1, alive={1}, now=2).claims
    assert 1 == len(ledger.turn(worker, [], want=1, alive={1}, now=3).claims)
