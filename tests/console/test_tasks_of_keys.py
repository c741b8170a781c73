"""`apportion tasks` on a queue with keys: the busiest keys, the owner of a key, and another number of partitions."""

from contextlib import contextmanager
from datetime import timedelta

import pytest

import apportion
import apportion.sync
from tests.console.grouping import eventually
from tests.console.running import refused, run
from tests.console.test_tasks import said, told

PLACES = ["one store", "a group in another store"]


@pytest.fixture(params=PLACES)
def stores(request, tmp_path):
    """Return the URL of the queue, that of its group if it is another one, and the options that name it."""
    url = f"sqlite:///{tmp_path}/work.db"
    group_url = None if request.param == PLACES[0] else f"sqlite:///{tmp_path}/group.db"
    return url, group_url, () if group_url is None else ("--group-url", group_url)


@contextmanager
def keyed(url, group_url, partitions=8):
    """Open a queue with one task function, whose runs wait for nothing."""
    queue = apportion.sync.Queue(
        url, "mail", lease_ttl=timedelta(seconds=2), partitions=partitions, group_url=group_url
    )

    @queue.task()
    def send(to: str) -> None: ...

    yield queue, send
    queue.close()


def filled(queue, send):
    """Enqueue three tasks of one key and one of another; return their handles."""
    return queue.enqueue_many([send.call("ann").options(key=each) for each in ("k", "k", "k", "tenant-42")])


@contextmanager
def worker(queue, name):
    member = apportion.LaneMember(member_id=name, settle=timedelta(0))
    with queue.worker(member=member):
        yield


def test_the_screen_shows_the_keys_with_most_waiting_tasks(stores, tmp_path):
    with keyed(*stores[:2]) as (queue, send):
        filled(queue, send)
        lines = [line.split() for line in said("top", stores[0], folder=tmp_path).splitlines()]
        assert ["queue", "key", "waiting", "lane"] in lines
        shown = lines[lines.index(["queue", "key", "waiting", "lane"]) + 2 :][:2]
        assert [["mail", "k", "3"], ["mail", "tenant-42", "1"]] == [line[:3] for line in shown]


def test_a_task_with_a_key_is_shown_with_the_live_worker_that_owns_its_partition(stores, tmp_path):
    url, group_url, options = stores
    with keyed(url, group_url) as (queue, send):
        handle = queue.enqueue(send.call("ann"), key="tenant-42")
        said("pause", url, "mail", folder=tmp_path)
        asked = ("show", url, handle.id, *options)
        with worker(queue, "worker-1"):
            eventually(lambda: "7, owned by worker-1" in said(*asked, folder=tmp_path))
            (task,) = told(*asked, folder=tmp_path)["tasks"]
            assert ("tenant-42", 7, "worker-1") == (task["key"], task["partition"], task["owner"])
            assert "paused" == told("why", url, handle.id, *options, folder=tmp_path)["tasks"][0]["cause"]
        assert "7, owned by nobody" in said(*asked, folder=tmp_path)


def test_a_queue_is_resized_with_its_group_once_no_worker_is_there(stores, tmp_path):
    url, group_url, options = stores
    with keyed(url, group_url) as (queue, send):
        with worker(queue, "worker-1"):
            message = refused(run("tasks", "resize", url, "mail", "16", *options, folder=tmp_path))
            assert "worker-1" in message
        assert "mail has 16 partitions (before: 8)" in said("resize", url, "mail", 16, *options, folder=tmp_path)
        found = told("resize", url, "mail", 32, *options, folder=tmp_path)
        assert {"queue": "mail", "before": 16, "partitions": 32} == found
        with pytest.raises(apportion.errors.InvalidInput, match="expected 32"):
            queue.enqueue(send.call("ann"), key="k")
    with keyed(url, group_url, partitions=32) as (queue, send), worker(queue, "worker-2"):
        queue.enqueue(send.call("ann"), key="k")
        eventually(lambda: queue.statistics.done == 1)
