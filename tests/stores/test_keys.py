"""Keyed tasks of a task ledger: a dumb list per key says which task may run, over random histories."""

import random

import pytest

from apportion.errors import InvalidInput, KeyedTasksOpen
from apportion.model.epoch import FencingToken
from apportion.stores import task_admin
from apportion.stores.keys.questions import BusiestKeys, HeadOfKey, KeyHead, KeyStats, LaneOwner, OwnerOfLane
from apportion.stores.lanes.values import AgreePartitions, OwnedLane, ResizePartitions
from apportion.stores.task_control import Cancel, Purge, Redrive
from apportion.stores.task_ledger import TaskLedger
from apportion.stores.task_values import NewTask, Settlement, Worker

KEYS = "xyz"


def token(epoch, holder="h"):
    """Return a token of a lane."""
    return FencingToken(resource="q", holder=holder, incarnation=1, epoch=epoch)


def lane(partition=0, epoch=1, holder="h", queue="q"):
    """Return an owned lane."""
    return OwnedLane(queue=queue, partition=partition, token=token(epoch, holder))


def keyed(task, key, partition=0, **rest):
    """Return a keyed task."""
    return NewTask(id=task, queue="q", name="f", arguments=b"", lane=16 + partition, key=key, **rest)


class DumbTwin:
    """The tasks of each key as a list, in the order in which they may run."""

    def __init__(self):
        self.lists = {key: [] for key in KEYS}
        self.running, self.dead = {}, {}

    def may_run(self, blocked):
        """Return the first task of each key of which nothing runs and nothing blocks."""
        return {
            tasks[0] for key, tasks in self.lists.items() if tasks and key not in self.running and key not in blocked
        }


@pytest.mark.parametrize("seed", range(40))
def test_a_key_runs_its_tasks_one_at_a_time_in_the_order_of_a_list(seed):
    draw, ledger, twin = random.Random(seed), TaskLedger(), DumbTwin()
    worker, claims, modes = Worker(session=1, queues=("q",), lanes=(lane(),)), {}, {}
    for now in range(1, 151):
        act = draw.choice(["enqueue", "enqueue", "claim", "settle", "settle", "cancel", "redrive"])
        if act == "enqueue":
            key, task = draw.choice(KEYS), f"t{now}"
            modes[task] = key, draw.choice(["skip", "block"])
            ledger.enqueue([keyed(task, key, on_dead=modes[task][1])], now=now)
            twin.lists[key].append(task)
        elif act == "claim":
            found = ledger.turn(worker, (), want=5, alive={1}, now=now).claims
            blocked = {key for key, tasks in twin.lists.items() if tasks and tasks[0] in twin.dead}
            assert twin.may_run(blocked) == {each.task for each in found}
            for each in found:
                assert modes[each.task][0] == each.key
                claims[each.task], twin.running[each.key] = each, each.task
        elif act == "settle" and claims:
            claim = claims.pop(draw.choice(sorted(claims)))
            fate = draw.choice(["done", "retry", "released", "dead", "dead", "cancelled"])
            ledger.turn(worker, [Settlement(receipt=claim.receipt, fate=fate)], alive={1}, now=now)
            del twin.running[claim.key]
            is_block = fate == "dead" and modes[claim.task][1] == "block"
            if fate in ("dead", "cancelled"):
                twin.dead[claim.task] = fate
            if fate not in ("retry", "released") and not is_block:
                twin.lists[claim.key].remove(claim.task)
        elif act == "cancel" and modes:
            task = draw.choice(sorted(modes))
            if task in twin.lists[modes[task][0]] and task not in claims:
                assert 1 == task_admin.control(ledger, Cancel(tasks=(task,)), now=now)
                twin.lists[modes[task][0]].remove(task)
                twin.dead[task] = "cancelled"
        elif act == "redrive" and twin.dead:
            task = draw.choice(sorted(twin.dead))
            assert 1 == task_admin.control(ledger, Redrive(tasks=(task,)), now=now)
            del twin.dead[task]
            if task not in twin.lists[modes[task][0]]:
                twin.lists[modes[task][0]].append(task)


def test_an_older_token_and_an_equal_one_of_another_holder_claim_nothing_in_that_lane():
    ledger = TaskLedger()
    ledger.enqueue([keyed("a", "x"), keyed("b", "y", 1)], now=0)
    new = Worker(session=1, queues=("q",), lanes=(lane(0, epoch=2),))
    assert ["a"] == [each.task for each in ledger.turn(new, (), want=1, alive={1, 2}, now=1).claims]
    ledger.enqueue([keyed("c", "z")], now=2)
    stale = (lane(0, epoch=1), lane(1, epoch=1))
    answer = ledger.turn(Worker(session=2, queues=("q",), lanes=stale), (), want=5, alive={1, 2}, now=3)
    assert (stale[:1], ["b"]) == (answer.fenced, [each.task for each in answer.claims])
    other = (lane(0, epoch=2, holder="k"),)
    assert other == ledger.turn(Worker(session=2, queues=("q",), lanes=other), (), want=5, alive={2}, now=4).fenced


def test_the_work_of_an_ended_session_is_taken_over_in_owned_lanes_alone():
    ledger = TaskLedger()
    ledger.enqueue([keyed("a", "x"), keyed("b", "y", 1)], now=0)
    both = Worker(session=1, queues=("q",), lanes=(lane(0), lane(1)))
    assert 2 == len(ledger.turn(both, (), want=5, alive={1}, now=1).claims)
    heir = Worker(session=2, queues=("q",), lanes=(lane(1, epoch=2),))
    assert ["b"] == [each.task for each in ledger.turn(heir, (), want=5, alive={2}, now=2).claims]


def test_a_keyed_task_ranks_by_age_with_those_of_the_default_priority():
    ledger = TaskLedger()
    plain = [NewTask(id=f"p{lane}", queue="q", name="f", arguments=b"", lane=lane) for lane in (3, 2, 0)]
    ledger.enqueue([plain[0], plain[1], keyed("a", "x"), plain[2]], now=0)
    worker = Worker(session=1, queues=("q",), lanes=(lane(),))
    claims = ledger.turn(worker, (), want=5, alive={1}, now=1).claims
    assert ["p0", "p2", "a", "p3"] == [each.task for each in claims]


def test_a_purge_of_dead_tasks_frees_the_keys_that_they_block():
    ledger = TaskLedger()
    ledger.enqueue([keyed("a", "x", on_dead="block"), keyed("b", "x")], now=0)
    worker = Worker(session=1, queues=("q",), lanes=(lane(),))
    (claim,) = ledger.turn(worker, (), want=5, alive={1}, now=1).claims
    dead = Settlement(receipt=claim.receipt, fate="dead")
    assert () == ledger.turn(worker, [dead], want=5, alive={1}, now=2).claims
    found = task_admin.answer(ledger, HeadOfKey(queue="q", key="x"), alive={1}, now=3)
    assert KeyHead(task="a", state="dead") == found
    assert 1 == task_admin.control(ledger, Purge(queue="q", states=("dead",)), now=3)
    assert ["b"] == [each.task for each in ledger.turn(worker, (), want=5, alive={1}, now=4).claims]


def test_the_questions_about_keys_name_the_busiest_key_and_the_owner_of_its_lane():
    ledger = TaskLedger()
    ledger.enqueue([keyed("a", "x"), keyed("b", "y"), keyed("c", "y")], now=0)
    busiest = (KeyStats(key="y", lane=16, waiting=2),)
    assert busiest == task_admin.answer(ledger, BusiestKeys(queue="q", most=1), alive=(), now=1)
    asked = OwnerOfLane(queue="q", partition=0)
    assert task_admin.answer(ledger, asked, alive={1}, now=1) is None
    ledger.turn(Worker(session=1, queues=("q",), lanes=(lane(),)), (), want=1, alive={1}, now=1)
    expected = LaneOwner(owned=lane(), session=1, is_alive=False)
    assert expected == task_admin.answer(ledger, asked, alive=(), now=1)


def test_the_number_of_partitions_is_set_once_and_changed_while_no_keyed_task_is_open():
    ledger = TaskLedger()
    task_admin.control(ledger, AgreePartitions(queue="n/q", partitions=8), now=0)
    task_admin.control(ledger, AgreePartitions(queue="n/q", partitions=8), now=0)
    with pytest.raises(InvalidInput, match="partitions of queue q is 9, expected 8"):
        task_admin.control(ledger, AgreePartitions(queue="n/q", partitions=9), now=0)
    ledger.enqueue([keyed("a", "x")], now=0)
    with pytest.raises(KeyedTasksOpen, match="queue 'q' has 1 open tasks with a key"):
        task_admin.control(ledger, ResizePartitions(queue="q", partitions=9), now=0)
    task_admin.control(ledger, Cancel(tasks=("a",)), now=0)
    assert 1 == task_admin.control(ledger, ResizePartitions(queue="q", partitions=9), now=0)
    assert [9] == [each.partitions for each in task_admin.overview(ledger, alive=(), now=0).queues if each.queue == "q"]


@pytest.mark.parametrize(
    "wrong",
    [{"key": ""}, {"key": "k" * 1_025}, {"key": "\ud800"}, {"lane": 2}, {"delay_ms": 5}, {"due_at": 5}, {"key": None}],
)
def test_a_key_without_bytes_or_too_long_or_beside_a_delay_or_a_priority_is_refused(wrong):
    with pytest.raises(InvalidInput, match="key"):
        NewTask(**{"id": "t", "queue": "q", "name": "f", "arguments": b"", "lane": 16, "key": "x"} | wrong)
