"""The failures of queues and schedulers that are written by hand, and for each the tests that rule it out here."""

import ast
import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest

import apportion
from apportion.sim.conformance import cases

ROOT = Path(__file__).parents[1]
# A test is named as `file::name`, a case of the conformance suite by its name alone.
FAILURES = {
    "a healthy long run is begun again, because its claim is old": ["the tasks of a renewed session stay its own"],
    "the tasks of a dead worker wait for minutes": [
        "a claim is taken over only after the end of its session",
        "a worker that never waits takes over too",
    ],
    "a slow worker ends the run of another one": [
        "work/test_receipts.py::test_an_old_receipt_is_refused_and_changes_nothing",
        "stores/test_task_bugs.py::test_a_removed_comparison_turns_the_cells_of_its_verbs_red_and_no_others",
    ],
    "an effect and its record are two commits": [
        "work/test_queue.py::test_effect_and_completion_are_one_commit",
        "a claim is completed in a transaction of the database",
    ],
    "two runs find that an effect is missing, and both make it": [
        "stores/test_tasks.py::test_an_effect_is_begun_by_one_open_claim_at_a_time_and_never_again_once_it_is_done"
    ],
    "a task that kills its worker comes back without end": [
        "work/test_child.py::test_a_poisonous_task_costs_one_worker_and_two_children",
        "ended sessions condemn a task at its limit and no task without one",
        "a task waits after its second death",
    ],
    "a claim reads all waiting tasks": [
        "stores/test_sqlite_task_plans.py::test_a_statement_of_a_turn_finds_its_rows_by_an_index",
        "stores/test_postgres_tasks_at_once.py::test_the_statements_of_a_turn_find_their_rows_by_an_index",
    ],
    "tasks of low priority starve": ["of eight places one goes to the lane that waited longest"],
    "a task that was committed late is passed over": [
        "stores/test_postgres_task_floors.py"
        "::test_nothing_is_left_behind_though_enqueues_commit_late_and_in_random_order"
    ],
    "two live workers complete one task": [
        "live/test_tasks_killed.py::test_no_task_is_lost_or_completed_twice_under_kills_stops_cuts_and_restarts"
    ],
    "a handler that blocks the event loop loses its claim": [
        "work/test_failures.py::test_a_handler_that_blocks_the_event_loop_keeps_its_claim"
    ],
    "a failed run waits for its claim to expire": [
        "work/test_queue.py::test_a_failed_run_comes_back_until_its_budget_is_spent",
        "a failed run counts and waits for its delay",
    ],
    "two schedulers trigger one job": [
        "work/test_scheduler.py::test_two_schedulers_trigger_one_job_once",
        "a slot that many handles trigger at once gets one task",
        "due slots fire once among handles",
        "live/test_cron_stopped.py::test_a_node_that_stopped_within_a_firing_holds_no_slot_up_and_doubles_none",
    ],
    "double execution after timeout": [
        "work/test_cron.py::test_the_task_of_a_slot_is_completed_once_though_its_first_run_outlives_its_lease",
        "a receipt before the last claim is refused",
    ],
    "a leader that slept fires a slot again": [
        "stores/test_schedules.py::test_a_late_node_fires_no_old_slot",
        "no slot up to the last one is triggered",
        "live/test_cron_stopped.py::test_a_leader_that_stopped_between_trigger_and_record_and_woke_doubles_no_slot",
        "live/test_cron_stopped.py::test_a_late_node_that_replays_all_old_slots_triggers_none",
    ],
    "a step of the clock fires a slot twice": ["a step of the clock fires a slot late and never twice"],
    "a deployment of two programs changes a schedule back and forth": [
        "work/test_schedule_admin.py::test_old_and_new_programs_side_by_side_do_not_change_a_schedule_back_and_forth"
    ],
    "a schedule that one node cannot read stops all others": [
        "a schedule that a node cannot evaluate fires on another one",
        "stores/test_schedules.py::test_a_damaged_row_in_a_file_costs_itself_alone",
    ],
    "a node that dies between slot and task burns the slot": [
        "stores/test_schedules.py::test_the_tasks_of_a_firing_and_its_slot_are_one_commit"
    ],
    "nodes compute different slots": [
        "stores/test_schedules.py::test_many_nodes_that_fire_at_once_fire_each_slot_once",
        "work/test_due_slots.py::test_the_stored_next_slot_fires_though_this_process_computes_another_one",
    ],
    "a slot fires again once its row is deleted": [
        "stores/test_schedules.py::test_the_history_keeps_the_last_slots_alone",
        "stores/test_schedules.py::test_a_late_node_fires_no_old_slot",
    ],
    "a lost hint delays a task without bound": ["a wait goes on after its connection was cut"],
    "a slow run overlaps the next one": [
        "work/test_due_slots.py::test_a_slot_beside_open_tasks_follows_the_policy_for_overlap"
    ],
    "processes hash a key differently": [
        "placement/test_golden.py::test_a_fresh_process_with_another_hash_seed_gives_the_same_answers"
    ],
}


def names_in(path):
    """Return the names of the tests in a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test")}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_ruled_out_by_tests_that_exist(failure):
    known = {case.name for case in cases()}
    assert FAILURES[failure]
    for named in FAILURES[failure]:
        path, _, name = named.partition("::")
        assert name in names_in(path) if name else named in known


@pytest.mark.slow
def test_a_handler_that_blocks_the_event_loop_keeps_its_claim(tmp_path):
    queue = apportion.Queue(f"sqlite:///{tmp_path}/work.db", "q", lease_ttl=timedelta(seconds=1))
    begun = []

    @queue.task(keep_result=True)
    async def block() -> str:
        begun.append(apportion.current_task().attempt)
        time.sleep(2.5)
        return "done"

    async def _run():
        handle = await queue.enqueue(block.call())
        async with queue.worker():
            result = await handle.result(timeout=timedelta(seconds=20))
        await queue.close()
        return result

    assert ("done", [1]) == (asyncio.run(_run()), begun)
