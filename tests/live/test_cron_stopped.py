"""Nodes that stop between two steps of a trigger and wake up later: each slot has one task, and the others go on."""

import asyncio
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from apportion import current_task
from apportion.errors import AlreadyTriggered
from apportion.stores.catalog import connect_tasks, parsed_url
from apportion.stores.task_control import Listing
from apportion.sync import Queue, cron_admin
from tests.live.cron_leader import RULE, TTL, slots
from tests.live.task_places import PLACES
from tests.stores.rigs import rig_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
PATIENCE_SECONDS = 40.0
COUNT, STOP_AT = 12, 4


@pytest.fixture(params=list(PLACES))
def url(request):
    """A file, or a server."""
    rig = rig_of(request.param)()
    yield PLACES[request.param](rig).url
    asyncio.run(rig.close())


@pytest.fixture
def queue(url):
    queue = Queue(url, "reports", lease_ttl=TTL)
    yield queue
    queue.close()


@pytest.fixture
def processes():
    """The processes that a test starts; at its end those that are left are killed."""
    found = []
    yield found
    for each in found:
        each.send_signal(signal.SIGKILL)
        each.wait()
        each.stdout.close()


def started(processes, *words):
    """Start a node."""
    command = [sys.executable, "-m", "tests.live.cron_leader", *map(str, words)]
    processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    return processes[-1]


def is_stopped(process):
    """Whether a process stands still."""
    return "T" == Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition):
    """Wait until a condition holds."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < ends, f"it does not hold within {PATIENCE_SECONDS:g} s"
        time.sleep(0.02)


def test_a_leader_that_stopped_between_trigger_and_record_and_woke_doubles_no_slot(url, queue, processes, tmp_path):
    seen = []

    @queue.task()
    def report() -> None:
        seen.append(current_task().slot)

    queue.schedule("report", report.call(), cron=RULE)
    record = tmp_path / "record"
    record.write_text("0")
    first = started(processes, "lead", url, record, COUNT, STOP_AT)
    until(lambda: is_stopped(first))
    assert str(STOP_AT) == record.read_text()  # the slot of this number was triggered, and is not recorded
    second = started(processes, "lead", url, record, COUNT)
    until(lambda: record.read_text() == str(COUNT))
    first.send_signal(signal.SIGCONT)
    assert 0 == first.wait(PATIENCE_SECONDS)
    assert str(STOP_AT + 1) == record.read_text()  # the woken leader has written its stale record
    assert 0 == second.wait(PATIENCE_SECONDS)
    third = started(processes, "lead", url, record, COUNT)  # it replays old slots
    assert 0 == third.wait(PATIENCE_SECONDS)
    assert list(range(STOP_AT + 1, COUNT)) == [int(line.split()[1]) for line in third.stdout]
    queue.drain()
    assert slots(COUNT) == sorted(seen)
    assert ["fired"] * COUNT == [each.mark for each in cron_admin.history(url, "reports", "report")]


def test_a_late_node_that_replays_all_old_slots_triggers_none(queue):
    @queue.task()
    def report() -> None: ...

    queue.schedule("report", report.call(), cron=RULE)
    for slot in slots(COUNT):
        queue.trigger("report", slot)
    for slot in slots(COUNT):
        with pytest.raises(AlreadyTriggered):
            queue.trigger("report", slot)
    assert COUNT == queue.drain().done


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_node_that_stopped_within_a_firing_holds_no_slot_up_and_doubles_none(url, queue, processes):
    @queue.task()
    def tick() -> None: ...

    queue.schedule("tick", tick.call(), every=timedelta(seconds=1), overlap="allow", missed="all")
    stopped = started(processes, "fire", url, "yes")
    until(lambda: is_stopped(stopped))
    other = started(processes, "fire", url, "no")
    assert "ready\n" == other.stdout.readline()
    began = time.monotonic()
    until(lambda: len(history(url)) >= 3)
    assert time.monotonic() - began < 20  # the lock of the stopped node has ended
    assert {f"pid {other.pid}"} == {each.by for each in history(url)}
    stopped.send_signal(signal.SIGCONT)
    wanted = len(history(url)) + 3
    until(lambda: len(history(url)) >= wanted)
    for each in (stopped, other):
        each.kill()
        each.wait()
    marks = history(url)
    found = [each.slot for each in marks]
    assert list(range(found[0], found[0] + len(found) * 1_000, 1_000)) == found
    assert {each.task for each in marks} == tasks_of(url)


def history(url):
    """Return the slots that were decided."""
    return cron_admin.history(url, "reports", "tick")


def tasks_of(url):
    """Return the open tasks."""

    async def _tasks():
        store = await connect_tasks(url)
        rows = await store.query(Listing(queue=f"{parsed_url(url).namespace}/reports", most=10_000))
        await store.close()
        return {row.id for row in rows}

    return asyncio.run(_tasks())
