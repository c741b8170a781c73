"""Metrics of tasks: every name that the docs promise is there, with the right value, and no label grows with work."""

import asyncio
import re
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import apportion
from apportion.errors import InvalidInput
from apportion.metrics.tasks import TaskMetrics
from apportion.runtime.attempt_events import AttemptClaimed
from apportion.runtime.buckets import Buckets
from apportion.work.observers.statistics import TaskStatistics

DOCS = Path(__file__).parents[2] / "docs" / "tasks" / "metrics.md"


def scraped(queue):
    """Return the values of a scrape, by name without the label of the queue."""
    registry = CollectorRegistry()
    registry.register(TaskMetrics(queue))
    lines = [each for each in generate_latest(registry).decode().splitlines() if not each.startswith("#")]
    assert all(f'queue="{queue.name}"' in line for line in lines)
    pairs = [line.removeprefix("apportion_tasks_").rpartition(" ") for line in lines]
    return {re.sub(r',?queue="[^"]*"|\{\}', "", name).replace("{}", ""): float(value) for name, _, value in pairs}


@pytest.fixture
def queue(tmp_path):
    queue = apportion.Queue(f"sqlite:///{tmp_path}/work.db", "mail")

    @queue.task()
    async def greet() -> None: ...

    @queue.task(failures=2, first_delay=timedelta(hours=1))
    def fail() -> None:
        raise ValueError("no")

    @queue.task()
    async def end_elsewhere() -> None:
        await queue.complete(apportion.current_task().receipt)

    queue.greet, queue.fail, queue.end_elsewhere = greet, fail, end_elsewhere
    return queue


def test_a_scrape_has_the_numbers_of_the_store_and_the_counts_of_the_process(queue):
    async def _run():
        calls = [
            queue.greet.call(),
            queue.greet.call(),
            queue.fail.call(),
            queue.fail.call(),
            queue.end_elsewhere.call(),
        ]
        await queue.enqueue_many(calls)
        before = await asyncio.to_thread(scraped, queue)
        await queue.drain()
        await queue.drain(ahead=timedelta(hours=2))
        await queue.enqueue(queue.greet.call(), delay=timedelta(hours=1))
        return before, await asyncio.to_thread(scraped, queue)

    before, after = asyncio.run(asyncio.wait_for(_run(), 30))
    numbers = {"ready": 5, "delayed": 0, "claimed": 0, "dead": 0, "cancelled": 0, "workers": 0, "store_answers": 1}
    totals = {"done": 0, "failed": 0, "died": 0, "refused": 0, "retaken": 0, "fenced": 0}
    totals |= {"slots_missed": 0, "slots_skipped": 0, "schedules_disagree": 0, "schedules_unable": 0}
    assert numbers | {f"{name}_total": value for name, value in totals.items()} == {
        name: value
        for name, value in before.items()
        if name in numbers or (name.endswith("_total") and "seconds" not in name)
    }
    expected = {"ready": 0, "delayed": 1, "dead": 2, "oldest_ready_seconds": 0, "store_answers": 1}
    expected |= {"done_total": 2, "failed_total": 2, "died_total": 2, "refused_total": 1}
    expected |= {"run_seconds_count": 7, "start_latency_seconds_count": 7}
    assert expected == {name: after[name] for name in expected}
    assert 0 < after["run_seconds_sum"] < 7


def test_the_age_of_the_oldest_ready_task_is_in_seconds(queue):
    async def _run():
        await queue.enqueue(queue.greet.call())
        while (age := (await asyncio.to_thread(scraped, queue))["oldest_ready_seconds"]) <= 0.02:
            await asyncio.sleep(0.005)
        return age

    assert asyncio.run(asyncio.wait_for(_run(), 30)) < 20


def test_a_store_that_does_not_answer_leaves_the_counts_of_the_process():
    queue = apportion.Queue("postgresql://nobody@127.0.0.1:1/none", "mail")
    values = scraped(queue)
    assert 0 == values["store_answers"] == values["done_total"]
    assert "ready" not in values


def test_a_store_that_was_not_made_yet_has_an_empty_queue(queue):
    values = scraped(queue.sync)
    assert (1, 0, 0) == (values["store_answers"], values["ready"], values["workers"])


def test_every_metric_is_documented_and_no_other():
    queue = apportion.Queue("memory://metrics", "mail", partitions=4)

    async def _run():
        async with queue.worker():
            return await asyncio.to_thread(scraped, queue)

    found = asyncio.run(asyncio.wait_for(_run(), 30))
    names = {name.partition("{")[0] for name in found if not name.partition("{")[0].endswith("_created")}
    ours = {f"apportion_tasks_{re.sub('_(count|sum|bucket)$', '', name)}" for name in names}
    documented = {line.split("`")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")}
    assert ours == documented


def test_lanes_without_an_owner_and_hand_overs_are_told():
    queue = apportion.Queue("memory://lanes", "mail", partitions=4)

    async def _run():
        async with queue.worker(member=apportion.LaneMember(weight=0.0)):
            idle = await asyncio.to_thread(scraped, queue)
            async with queue.worker():
                while (await asyncio.to_thread(scraped, queue))["lanes_without_owner"]:
                    await asyncio.sleep(0.01)
        return idle, await asyncio.to_thread(scraped, queue)

    idle, after = asyncio.run(asyncio.wait_for(_run(), 30))
    assert (4, 0) == (idle["lanes_without_owner"], idle["lane_handover_seconds_count"])
    assert "lanes_without_owner" not in after
    assert 0 <= after["lane_handover_seconds_count"] <= 4


def test_every_alert_uses_documented_metrics():
    text = DOCS.read_text()
    documented = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    used = set(re.findall(r"apportion_tasks_\w+", text.partition("```yaml")[2]))
    assert set() == {re.sub("_(count|sum|bucket)$", "", name) for name in used} - documented


def test_a_duration_on_a_bound_counts_below_the_bound():
    buckets = Buckets()
    for seconds in (0.001, 0.0011, 4_000.0):
        buckets.add(seconds)
    assert [(0.001, 1), (0.005, 2)] == buckets.cumulative()[:2]
    assert [(3_600.0, 2), (float("inf"), 3)] == buckets.cumulative()[-2:]


def test_an_object_that_is_no_queue_is_refused():
    with pytest.raises(InvalidInput, match="queue"):
        TaskMetrics("mail")


def test_a_claim_taken_over_from_an_ended_session_is_counted():
    counted = TaskStatistics()
    who = {"queue": "q", "worker": "w", "task": "t", "name": "f", "attempt": 2, "at": 0.0, "waited_seconds": 1.0}
    for is_retaken in (True, False):
        counted.observe(AttemptClaimed(**who, is_retaken=is_retaken))
    assert 1 == counted.retaken
