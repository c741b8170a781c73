# Generated from work/admin/facade.py by `python -m generate`; change that file, and generate anew.
"""Admin of tasks as programs use it, without an event loop: questions and acts of an operator, from any process.

    from apportion.sync import task_admin

    print(task_admin.why("sqlite:///work.db", task_id))
    task_admin.redrive("sqlite:///work.db", task_id)

Each call opens the store of a URL on the I/O thread, and closes it at the end. All calls raise the errors of
`stores.catalog.connect_tasks`. If no store was made yet, `enqueue` of a task without a key makes it, and all other
calls raise `InvalidInput`.
The async twin of this file is `work/admin/facade.py`.
"""

from datetime import timedelta

from apportion.runtime.io_thread import io_thread
from apportion.stores.keys.questions import KeyStats
from apportion.stores.task_control import QueueStats, TaskRow
from apportion.stores.task_values import TaskState, Worker
from apportion.sync.tasks import SyncQueue, SyncTaskHandle
from apportion.work.admin import acts, keys, questions
from apportion.work.admin.arguments import checked_queue
from apportion.work.admin.cause import Why
from apportion.work.admin.keys import KeyOwner
from apportion.work.admin.questions import OPEN, TaskPage
from apportion.work.call import Call


def stats(url: str) -> tuple[QueueStats, ...]:
    """Return the numbers of each queue, sorted by name. O(open tasks)."""
    return io_thread().wait(questions.stats(url))


def workers(url: str) -> tuple[Worker, ...]:
    """Return the workers that live, sorted by session."""
    return io_thread().wait(questions.workers(url))


def tasks(
    url: str,
    queue: str,
    *,
    states: tuple[TaskState, ...] = OPEN,
    name: str | None = None,
    after: str | None = None,
    most: int = 100,
) -> TaskPage:
    """Return a page of the tasks of a queue, at most `most` of them. `after`: the `after` of the previous page."""
    return io_thread().wait(questions.tasks(url, queue, states=states, name=name, after=after, most=most))


def show(url: str, *ids: str) -> tuple[TaskRow, ...]:
    """Return the rows of tasks, in the order of the ids. The row of an unknown id has the state "missing".

    Here and in `why`, `cancel`, `retry` and `redrive`, the first four digits of an id, or more, are enough.
    `InvalidInput` if two ids begin with them.
    """
    return io_thread().wait(questions.show(url, *ids))


def why(url: str, task: str, *, group_url: str | None = None) -> Why:
    """Return the reason why a task is not done yet, and the next step.

    - `group_url`: the `group_url` of the queue, if it has one.
    """
    return io_thread().wait(questions.why(url, task, group_url=group_url))


def busiest(url: str, queue: str, *, most: int = 20) -> tuple[KeyStats, ...]:
    """Return the keys of a queue with the most waiting tasks, most first. O(open tasks with a key)."""
    return io_thread().wait(keys.busiest(url, queue, most=most))


def owner(url: str, queue: str, key: str, *, group_url: str | None = None) -> KeyOwner:
    """Return the partition of a key, and the worker that owns its lane.

    - `group_url`: the `group_url` of the queue, if it has one.
    """
    return io_thread().wait(keys.owner(url, queue, key, group_url=group_url))


def resize(url: str, queue: str, partitions: int, *, group_url: str | None = None) -> int | None:
    """Give a queue another number of partitions; return the old number, None if the queue had no keys.

    `Unsafe` while a worker of the queue runs; `KeyedTasksOpen` while a task with a key is open. With either error
    nothing is changed. Give the programs the new number before you start them again.

    - `group_url`: the `group_url` of the queue, if it has one.
    """
    return io_thread().wait(keys.resize(url, queue, partitions, group_url=group_url))


def enqueue(url: str, queue: str, call: Call) -> SyncTaskHandle:
    """Add a task, and return its handle; errors are those of `SyncQueue.enqueue`."""
    partitions = None
    if call.key is not None:
        partitions = (io_thread().wait(keys.keyed(url, queue))).partitions
    opened = SyncQueue(url, checked_queue(queue), partitions=partitions)
    try:
        return opened.enqueue(call)
    finally:
        opened.close()


def cancel(url: str, *ids: str) -> int:
    """Cancel tasks: waiting ones at once, running ones by their workers. Return the number of tasks that were open."""
    return io_thread().wait(acts.cancel(url, *ids))


def retry(url: str, *ids: str) -> int:
    """Make delayed tasks ready now; return the number of these tasks."""
    return io_thread().wait(acts.retry(url, *ids))


def redrive(url: str, *ids: str) -> int:
    """Make dead and cancelled tasks ready again, with fresh budgets; return the number of these tasks.

    A task stays as it is while another open task has its unique name.
    """
    return io_thread().wait(acts.redrive(url, *ids))


def cancel_all(
    url: str, queue: str, *, states: tuple[TaskState, ...] = ("ready", "delayed"), name: str | None = None
) -> int:
    """Cancel the tasks of a queue in some open states; return the number of these tasks.

    - `name`: limits the act to the tasks of one task function.
    """
    return io_thread().wait(acts.cancel_all(url, queue, states=states, name=name))


def retry_all(url: str, queue: str, *, name: str | None = None) -> int:
    """Make the delayed tasks of a queue ready now; return the number of these tasks.

    - `name`: limits the act to the tasks of one task function.
    """
    return io_thread().wait(acts.retry_all(url, queue, name=name))


def redrive_all(url: str, queue: str, *, states: tuple[TaskState, ...] = ("dead",), name: str | None = None) -> int:
    """Make the dead (or cancelled) tasks of a queue ready again, with fresh budgets; return their number.

    - `name`: limits the act to the tasks of one task function.
    """
    return io_thread().wait(acts.redrive_all(url, queue, states=states, name=name))


def purge(url: str, queue: str, *states: TaskState) -> int:
    """Delete the tasks of a queue in some states, and return their number. `InvalidInput` for the state "claimed"."""
    return io_thread().wait(acts.purge(url, queue, *states))


def pause(url: str, queue: str) -> None:
    """Stop new claims of a queue by any worker. Running tasks continue."""
    io_thread().wait(acts.pause(url, queue))


def resume(url: str, queue: str) -> None:
    """Let workers claim the tasks of a paused queue again."""
    io_thread().wait(acts.resume(url, queue))


def limit(
    url: str, queue: str, *, running: int | None = None, rate: int | None = None, per: timedelta = timedelta(minutes=1)
) -> None:
    """Limit a queue over all workers: `running` tasks at a time, and `rate` starts per `per`. None: no limit."""
    io_thread().wait(acts.limit(url, queue, running=running, rate=rate, per=per))
