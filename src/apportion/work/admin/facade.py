"""Admin of tasks as programs use it, on any event loop: questions and acts of an operator, from any process.

    from apportion.work import admin

    print(await admin.why("sqlite:///work.db", task_id))
    await admin.redrive("sqlite:///work.db", task_id)

Each call opens the store of a URL on the I/O thread, and closes it at the end. All calls raise the errors of
`stores.catalog.connect_tasks`. If no store was made yet, `enqueue` of a task without a key makes it, and all other
calls raise `InvalidInput`.
The sync twin of this file is `sync/task_admin.py`.
"""

from datetime import timedelta

from apportion.runtime.io_thread import io_thread
from apportion.stores.keys.questions import KeyStats
from apportion.stores.task_control import QueueStats, TaskRow
from apportion.stores.task_values import TaskState, Worker
from apportion.work.admin import acts, keys, questions
from apportion.work.admin.arguments import checked_queue
from apportion.work.admin.cause import Why
from apportion.work.admin.keys import KeyOwner
from apportion.work.admin.questions import OPEN, TaskPage
from apportion.work.call import Call
from apportion.work.facade import Queue, TaskHandle


async def stats(url: str) -> tuple[QueueStats, ...]:
    """Return the numbers of each queue, sorted by name. O(open tasks)."""
    return await io_thread().hop(questions.stats(url))


async def workers(url: str) -> tuple[Worker, ...]:
    """Return the workers that live, sorted by session."""
    return await io_thread().hop(questions.workers(url))


async def tasks(
    url: str,
    queue: str,
    *,
    states: tuple[TaskState, ...] = OPEN,
    name: str | None = None,
    after: str | None = None,
    most: int = 100,
) -> TaskPage:
    """Return a page of the tasks of a queue, at most `most` of them. `after`: the `after` of the previous page."""
    return await io_thread().hop(questions.tasks(url, queue, states=states, name=name, after=after, most=most))


async def show(url: str, *ids: str) -> tuple[TaskRow, ...]:
    """Return the rows of tasks, in the order of the ids. The row of an unknown id has the state "missing".

    Here and in `why`, `cancel`, `retry` and `redrive`, the first four digits of an id, or more, are enough.
    `InvalidInput` if two ids begin with them.
    """
    return await io_thread().hop(questions.show(url, *ids))


async def why(url: str, task: str, *, group_url: str | None = None) -> Why:
    """Return the reason why a task is not done yet, and the next step.

    - `group_url`: the `group_url` of the queue, if it has one.
    """
    return await io_thread().hop(questions.why(url, task, group_url=group_url))


async def busiest(url: str, queue: str, *, most: int = 20) -> tuple[KeyStats, ...]:
    """Return the keys of a queue with the most waiting tasks, most first. O(open tasks with a key)."""
    return await io_thread().hop(keys.busiest(url, queue, most=most))


async def owner(url: str, queue: str, key: str, *, group_url: str | None = None) -> KeyOwner:
    """Return the partition of a key, and the worker that owns its lane.

    - `group_url`: the `group_url` of the queue, if it has one.
    """
    return await io_thread().hop(keys.owner(url, queue, key, group_url=group_url))


async def resize(url: str, queue: str, partitions: int, *, group_url: str | None = None) -> int | None:
    """Give a queue another number of partitions; return the old number, None if the queue had no keys.

    `Unsafe` while a worker of the queue runs; `KeyedTasksOpen` while a task with a key is open. With either error
    nothing is changed. Give the programs the new number before you start them again.

    - `group_url`: the `group_url` of the queue, if it has one.
    """
    return await io_thread().hop(keys.resize(url, queue, partitions, group_url=group_url))


async def enqueue(url: str, queue: str, call: Call) -> TaskHandle:
    """Add a task, and return its handle; errors are those of `Queue.enqueue`."""
    partitions = None
    if call.key is not None:
        partitions = (await io_thread().hop(keys.keyed(url, queue))).partitions
    opened = Queue(url, checked_queue(queue), partitions=partitions)
    try:
        return await opened.enqueue(call)
    finally:
        await opened.close()


async def cancel(url: str, *ids: str) -> int:
    """Cancel tasks: waiting ones at once, running ones by their workers. Return the number of tasks that were open."""
    return await io_thread().hop(acts.cancel(url, *ids))


async def retry(url: str, *ids: str) -> int:
    """Make delayed tasks ready now; return the number of these tasks."""
    return await io_thread().hop(acts.retry(url, *ids))


async def redrive(url: str, *ids: str) -> int:
    """Make dead and cancelled tasks ready again, with fresh budgets; return the number of these tasks.

    A task stays as it is while another open task has its unique name.
    """
    return await io_thread().hop(acts.redrive(url, *ids))


async def cancel_all(
    url: str, queue: str, *, states: tuple[TaskState, ...] = ("ready", "delayed"), name: str | None = None
) -> int:
    """Cancel the tasks of a queue in some open states; return the number of these tasks.

    - `name`: limits the act to the tasks of one task function.
    """
    return await io_thread().hop(acts.cancel_all(url, queue, states=states, name=name))


async def retry_all(url: str, queue: str, *, name: str | None = None) -> int:
    """Make the delayed tasks of a queue ready now; return the number of these tasks.

    - `name`: limits the act to the tasks of one task function.
    """
    return await io_thread().hop(acts.retry_all(url, queue, name=name))


async def redrive_all(
    url: str, queue: str, *, states: tuple[TaskState, ...] = ("dead",), name: str | None = None
) -> int:
    """Make the dead (or cancelled) tasks of a queue ready again, with fresh budgets; return their number.

    - `name`: limits the act to the tasks of one task function.
    """
    return await io_thread().hop(acts.redrive_all(url, queue, states=states, name=name))


async def purge(url: str, queue: str, *states: TaskState) -> int:
    """Delete the tasks of a queue in some states, and return their number. `InvalidInput` for the state "claimed"."""
    return await io_thread().hop(acts.purge(url, queue, *states))


async def pause(url: str, queue: str) -> None:
    """Stop new claims of a queue by any worker. Running tasks continue."""
    await io_thread().hop(acts.pause(url, queue))


async def resume(url: str, queue: str) -> None:
    """Let workers claim the tasks of a paused queue again."""
    await io_thread().hop(acts.resume(url, queue))


async def limit(
    url: str, queue: str, *, running: int | None = None, rate: int | None = None, per: timedelta = timedelta(minutes=1)
) -> None:
    """Limit a queue over all workers: `running` tasks at a time, and `rate` starts per `per`. None: no limit."""
    await io_thread().hop(acts.limit(url, queue, running=running, rate=rate, per=per))
