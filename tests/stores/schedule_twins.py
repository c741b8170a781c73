"""Random histories of schedules: a ledger and a store get the same calls, and must give the same answers."""

import asyncio
import random
import sqlite3
from dataclasses import replace
from itertools import count

from apportion.stores.schedules.ledger import ScheduleLedger
from apportion.stores.schedules.values import Firing, TaskSchedule
from apportion.stores.sqlite import schema
from apportion.stores.sqlite import statements as lease_sql
from apportion.stores.sqlite import task_ledger as sqlite_rules
from apportion.stores.sqlite.schedules import SqliteSchedules
from apportion.stores.sqlite.tasks import make_tables
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_values import Settlement, Worker
from apportion.work.cron.due_slots import decide

QUEUES, NAMES, HOUR, SESSION = ("a", "b"), ("s", "t", "u"), 3_600_000, 11


class SqliteFile:
    """The schedules in an SQLite database, at times of the test."""

    def __init__(self):
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for statement in schema.statements(since=0):
            self.connection.execute(statement)
        make_tables(self.connection)
        self.connection.execute(lease_sql.ADD_LEASE, (SESSION, 2.0))
        self.schedules, self.now = SqliteSchedules(self), 0

    async def read(self, work):
        return work(self.connection, self.now)

    async def write(self, work):
        return work(self.connection, self.now)

    def at(self, now):
        self.now = now

    def run(self, answer):
        return asyncio.run(answer)

    def turn(self, worker, settlements, want):
        return sqlite_rules.turn(self.connection, worker, settlements, want=want, now=self.now)


class ScheduleTwins:
    """A ledger, and another store. `fired` counts the tasks of both."""

    def __init__(self, seed, other):
        self.draw, self.now = random.Random(seed), 500_000 * HOUR
        self.tasks = TaskLedger()
        self.ledger, self.other = ScheduleLedger(tasks=self.tasks), other
        self.ids = count(), count()
        self.receipts, self.fired = [], 0

    def step(self):
        """Make one random call on both, and compare the schedules and their histories."""
        self.now += self.draw.choice([0, 1, HOUR // 2, HOUR, 3 * HOUR])
        self.other.at(self.now)
        call = self.draw.choice(
            [
                self.register,
                self.change,
                self.remove,
                self.pause,
                self.trigger,
                self.fire,
                self.fire,
                self.fire,
                self.work,
            ]
        )
        call()
        assert self.ledger.listed() == self.run("listed")
        for queue in QUEUES:
            assert self.ledger.listed(queue) == self.run("listed", queue)
            for name in NAMES:
                assert self.ledger.history(queue, name) == self.run("history", queue, name)
                assert self.ledger.listed(queue, name) == self.run("listed", queue, name)

    def run(self, verb, *values, **options):
        return self.other.run(getattr(self.other.schedules, verb)(*values, **options))

    def schedule(self):
        draw = self.draw
        rule = draw.choice(["0 * * * *", "*/30 * * * *", "0 */5 * * *", "every 5400000ms"])
        return TaskSchedule(
            queue=draw.choice(QUEUES),
            name=draw.choice(NAMES),
            rule=rule,
            task="f",
            arguments=draw.randbytes(2),
            missed=draw.choice(["skip", "last", "all"]),
            overlap=draw.choice(["allow", "skip", "queue-one", "cancel-old"]),
            jitter_ms=draw.choice([0, 0, 60_000]),
            lane=draw.choice([0, 2]),
            is_declared=draw.choice([False, True]),
            last_slot=self.now,
            next_slot=self.now - self.now % HOUR + HOUR,
        )

    def register(self):
        new = [self.schedule() for _ in range(self.draw.randint(1, 3))]
        assert self.ledger.register(new) == self.run("register", new)

    def change(self):
        new, version = self.schedule(), self.draw.randint(1, 3)
        new = replace(new, next_slot=new.next_slot - self.draw.choice([0, 0, 6 * HOUR]))
        assert self.ledger.change(new, version=version) == self.run("change", new, version=version)

    def remove(self):
        if self.draw.random() < 0.3:
            place, version = (self.draw.choice(QUEUES), [self.draw.choice(NAMES)]), self.draw.choice([None, 1, 2])
            assert self.ledger.remove(*place, version=version) == self.run("remove", *place, version=version)

    def pause(self):
        place = self.draw.choice(QUEUES), self.draw.sample(NAMES, self.draw.choice([0, 0, 1, 2]))
        assert self.ledger.pause(*place) == self.run("pause", *place)

    def trigger(self):
        """Trigger a schedule by what a node knows: at times an old version, an old slot, or the end of a pause."""
        rows = [row for queue in QUEUES for row in self.ledger.listed(queue)]
        if rows:
            row, draw = self.draw.choice(rows), self.draw
            firing = Firing(
                queue=row.queue,
                name=row.name,
                version=row.version - draw.choice([0, 0, 1]),
                last_slot=row.last_slot - draw.choice([0, 0, 0, HOUR]),
                slot=row.last_slot + draw.choice([-HOUR, 0, 1, HOUR]),
                next_slot=self.now + HOUR,
                tzdata="",
                resumes=draw.random() < 0.7,
            )
            assert self.ledger.trigger(firing, by="w", now=self.now) == self.run("trigger", firing, by="w")

    def fire(self):
        queues = self.draw.choice([QUEUES, ("a",)])
        without = {(self.draw.choice(QUEUES), self.draw.choice(NAMES))} if self.draw.random() < 0.2 else set()
        unable = self.draw.choice(NAMES) if self.draw.random() < 0.1 else None

        def _decide(ids):
            def _decided(due, now):
                if due.schedule.name == unable or due.schedule.damage:
                    return None
                return decide(due, now=now, new_id=lambda: f"t{next(ids)}", tzdata="x").firing

            return _decided

        options = {"by": "w", "without": without}
        mine = self.ledger.fire(queues, _decide(self.ids[0]), **options, now=self.now)
        theirs = self.run("fire", queues, _decide(self.ids[1]), **options)
        assert mine == theirs, (mine, theirs)
        self.fired += sum(len(each.tasks) for each in mine.firings)

    def work(self):
        """Claim tasks, and settle some of those under way, so that the open tasks of schedules differ."""
        ended = [Settlement(receipt=each, fate="done") for each in self.receipts if self.draw.random() < 0.5]
        worker = Worker(session=SESSION, queues=QUEUES)
        mine = self.tasks.turn(worker, ended, want=2, alive={SESSION}, now=self.now)
        theirs = self.other.turn(worker, ended, 2)
        assert [(each.receipt, each.slot) for each in mine.claims] == [
            (each.receipt, each.slot) for each in theirs.claims
        ]
        gone = {each.receipt for each in ended}
        self.receipts = [each for each in self.receipts if each not in gone] + [each.receipt for each in mine.claims]
