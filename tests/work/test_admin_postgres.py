"""An operator's questions and acts on a real PostgreSQL server: the cases of `test_admin.py`, and the command line."""

import json

import pytest

from tests.console.running import run
from tests.stores.test_postgres_tasks import rig, schema, url
from tests.work.test_admin import (
    played,
    test_a_command_does_not_read_the_whole_store_to_see_whether_it_exists,
    test_a_limit_holds_over_all_workers,
    test_a_paused_queue_starts_nothing_until_it_is_resumed,
    test_a_task_is_shown_with_the_sessions_that_ended_under_it,
    test_a_worker_that_holds_a_suspect_bars_a_task_with_two_deaths,
    test_all_dead_tasks_of_a_name_are_redriven_but_those_that_died_since,
    test_all_delayed_tasks_are_retried_or_cancelled_page_by_page,
    test_dead_tasks_are_listed_redriven_and_purged,
    test_tasks_are_shown_in_the_order_of_their_ids_and_only_within_the_namespace,
    test_the_beginning_of_an_id_names_a_task_that_alone_has_it,
    test_the_cause_of_a_spent_rate_is_the_limit_until_it_allows_another_start,
    test_the_tasks_of_a_queue_are_paged_and_each_comes_once,
    test_waiting_tasks_are_retried_and_cancelled,
    test_workers_are_named_with_their_queues,
)
from tests.work.test_queue import queue

__all__ = [
    "queue",
    "rig",
    "schema",
    "test_a_command_does_not_read_the_whole_store_to_see_whether_it_exists",
    "test_a_limit_holds_over_all_workers",
    "test_a_paused_queue_starts_nothing_until_it_is_resumed",
    "test_a_task_is_shown_with_the_sessions_that_ended_under_it",
    "test_a_worker_that_holds_a_suspect_bars_a_task_with_two_deaths",
    "test_all_dead_tasks_of_a_name_are_redriven_but_those_that_died_since",
    "test_all_delayed_tasks_are_retried_or_cancelled_page_by_page",
    "test_dead_tasks_are_listed_redriven_and_purged",
    "test_tasks_are_shown_in_the_order_of_their_ids_and_only_within_the_namespace",
    "test_the_beginning_of_an_id_names_a_task_that_alone_has_it",
    "test_the_cause_of_a_spent_rate_is_the_limit_until_it_allows_another_start",
    "test_the_tasks_of_a_queue_are_paged_and_each_comes_once",
    "test_waiting_tasks_are_retried_and_cancelled",
    "test_workers_are_named_with_their_queues",
    "url",
]
pytestmark = pytest.mark.live


def test_the_command_line_reads_and_acts_on_the_same_queue(queue, tmp_path):
    @queue.task(failures=1)
    def fail() -> None:
        raise ValueError("no")

    async def _play():
        await queue.enqueue_many([fail.call(), fail.call()])
        await queue.drain()
        await queue.close()

    played(_play())
    (stats,) = json.loads(run("tasks", "stats", queue.url, "--json", folder=tmp_path).stdout)["queues"]
    assert ("mail", 0, 2) == (stats["queue"], stats["ready"], stats["dead"])
    done = run("tasks", "redrive", queue.url, "--queue", "mail", folder=tmp_path)
    assert (0, b"tasks redrive: 2 tasks ready again\n") == (done.returncode, done.stdout)
    done = run("tasks", "limit", queue.url, "mail", "--running", "5", "--rate", "100/min", folder=tmp_path)
    assert 0 == done.returncode
    assert b"runs at most 5 at a time and starts at most 100" in run("tasks", "top", queue.url, folder=tmp_path).stdout
