"""An operator reads, deploys and changes schedules on PostgreSQL, as on SQLite."""

import pytest

from tests.stores.test_postgres_tasks import rig, schema, url
from tests.work.test_schedule_admin import (
    test_a_deployment_changes_and_removes_by_version_and_the_last_slot_stays,
    test_a_first_deployment_adds_all_and_a_second_changes_nothing,
    test_a_pause_a_resume_and_a_removal_say_whether_they_changed_anything,
    test_a_schedule_from_data_is_not_touched_even_under_a_declared_name,
    test_a_task_that_runs_now_takes_no_later_slot_away,
    test_no_task_runs_now_of_a_schedule_whose_last_slot_lies_ahead,
    test_the_sync_form_answers_as_the_async_one,
)

__all__ = [
    "rig",
    "schema",
    "test_a_deployment_changes_and_removes_by_version_and_the_last_slot_stays",
    "test_a_first_deployment_adds_all_and_a_second_changes_nothing",
    "test_a_pause_a_resume_and_a_removal_say_whether_they_changed_anything",
    "test_a_schedule_from_data_is_not_touched_even_under_a_declared_name",
    "test_a_task_that_runs_now_takes_no_later_slot_away",
    "test_no_task_runs_now_of_a_schedule_whose_last_slot_lies_ahead",
    "test_the_sync_form_answers_as_the_async_one",
    "url",
]
pytestmark = pytest.mark.live
