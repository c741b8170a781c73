"""Every call of `apportion.sync` is the one of the same name in `apportion`, for programs without an event loop."""

import inspect
import re
from types import FunctionType

import pytest

import apportion
from apportion import sync
from apportion.groups import admin
from apportion.groups import facade as groups
from apportion.groups import leader as leaders
from apportion.shards.replicas import facade as maps
from apportion.stores import facade as stores
from apportion.sync import admin as sync_admin
from apportion.sync import cron_admin, task_admin
from apportion.sync import replicas as sync_maps
from apportion.tables import facade as tables
from apportion.work import admin as of_tasks
from apportion.work import facade as tasks
from apportion.work.admin import cron as of_cron
from apportion.work.current import AsyncRunningTask

TYPES = [
    (sync.SyncGroup, groups.AsyncGroup),
    (sync.SyncElection, leaders.AsyncElection),
    (sync.SyncStore, stores.AsyncStore),
    (sync.SyncFollower, tables.AsyncFollower),
    (sync.Queue, tasks.Queue),
    (sync.SyncTaskHandle, tasks.TaskHandle),
    (sync.SyncRunningTask, AsyncRunningTask),
]

CALLS_OF_AN_OPERATOR = [name for name in admin.__all__ if getattr(sync_admin, name, None).__class__ is FunctionType]


def parameters(call):
    """Return the names, the order, the kinds and the defaults of what a call takes."""
    return [(each.name, each.kind, each.default) for each in inspect.signature(call).parameters.values()]


def methods(kind):
    return {name: parameters(member) for name, member in inspect.getmembers(kind, callable) if name[0] != "_"}


@pytest.mark.parametrize("name", [name for name in sync.__all__ if not name.startswith("Sync")])
def test_a_call_takes_the_same_in_both_forms(name):
    assert parameters(getattr(apportion, name)) == parameters(getattr(sync, name))


def test_a_map_takes_the_same_in_both_forms():
    assert parameters(maps.create) == parameters(sync_maps.create)
    assert methods(maps.AsyncMap) == methods(sync_maps.SyncMap)


@pytest.mark.parametrize(
    "name", [name for name in admin.__all__ if inspect.isfunction(getattr(sync_admin, name, None))]
)
def test_a_call_of_an_operator_takes_the_same_in_both_forms(name):
    assert parameters(getattr(admin, name)) == parameters(getattr(sync_admin, name))


@pytest.mark.parametrize(
    "name", [name for name in of_tasks.__all__ if inspect.iscoroutinefunction(vars(of_tasks)[name])]
)
def test_a_call_of_an_operator_of_tasks_takes_the_same_in_both_forms(name):
    assert parameters(getattr(of_tasks, name)) == parameters(getattr(task_admin, name))


@pytest.mark.parametrize(("of_sync", "of_async"), TYPES, ids=lambda kind: kind.__name__)
def test_methods_take_the_same_in_both_forms(of_sync, of_async):
    assert methods(of_async) == methods(of_sync)


def test_all_types_of_the_room_are_compared():
    types = {each for each in map(sync.__dict__.get, sync.__all__) if isinstance(each, type)}
    openings = {sync.open_group, sync.open_store, sync.leader, sync.follow}
    assert types - openings == {each for each, _ in TYPES}


@pytest.mark.parametrize("room", [apportion, sync], ids=["async", "sync"])
@pytest.mark.parametrize("name", ["open_group", "open_store", "leader", "follow", "publish", "Queue"])
def test_help_explains_each_parameter_in_order_and_shows_an_example(room, name):
    call = getattr(room, name)
    text = inspect.getdoc(call)
    assert list(inspect.signature(call).parameters) == re.findall(r"(?m)^- `(\w+)`: ", text)
    assert re.search(rf"(?m)^    .*{room.__name__}\.{name}\(", text)


@pytest.mark.parametrize("name", [name for name in of_cron.__all__ if inspect.iscoroutinefunction(vars(of_cron)[name])])
def test_a_call_of_an_operator_of_schedules_takes_the_same_in_both_forms(name):
    assert parameters(getattr(of_cron, name)) == parameters(getattr(cron_admin, name))
