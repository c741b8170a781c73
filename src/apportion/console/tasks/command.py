"""`apportion tasks`: the commands with which an operator reads and changes tasks, and the worker."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Annotated, Literal, TypeVar

from cyclopts import Parameter

from apportion.console.options.arguments import Json, Url, Whole
from apportion.console.print.live import show_live
from apportion.console.print.progress import Progress
from apportion.console.tasks import report
from apportion.console.tasks.lane_options import NO_LANE_OPTIONS, LaneOptions
from apportion.console.tasks.near_queue import note_near_queue
from apportion.console.tasks.options import Chosen, GroupUrl, QueueName, TaskId, named, parsed_limits, parsed_states
from apportion.console.tasks.run import run
from apportion.errors import InvalidInput
from apportion.stores.catalog import shown_url
from apportion.stores.task_values import OnDead, TaskState
from apportion.work import admin

Answer = TypeVar("Answer")
_MOST_KEYS = 5
_OPEN = "ready,delayed,claimed"
ALL_BY_ID = Chosen()
_CHANGEABLE: dict[str, tuple[TaskState, ...]] = {
    "cancel": ("ready", "delayed", "claimed"),
    "retry": ("delayed",),
    "redrive": ("dead", "cancelled"),
}


def worker_tasks(
    *queues: Annotated[str, Parameter(name="QUEUES", help="Module and name of a queue, such as app:queue.")],
    concurrency: Annotated[
        Whole | None, Parameter(help="Number of tasks of each queue that run at a time (default: 10, or --processes).")
    ] = None,
    processes: Annotated[
        Whole, Parameter(help="Number of child processes for plain functions; 0 runs them in threads.")
    ] = 0,
    lanes: LaneOptions = NO_LANE_OPTIONS,
    json: Annotated[bool, Parameter(help="Print one JSON object per line instead.")] = False,
) -> None:
    """Run the tasks of queues, until SIGTERM or Ctrl-C. A module is looked for in the current folder first."""
    run(queues, concurrency=concurrency, processes=processes, lanes=lanes, json=json)


def enqueue_tasks(
    url: Url,
    queue: QueueName,
    name: Annotated[str, Parameter(help="Name of the task function.")],
    arguments: Annotated[str, Parameter(help='Its arguments by name, as JSON: {"to": "ann"}')] = "{}",
    /,
    *,
    delay: timedelta | None = None,
    priority: Whole | None = None,
    expires: timedelta | None = None,
    unique: str | None = None,
    on_duplicate: Literal["keep", "replace"] | None = None,
    key: str | None = None,
    on_dead: OnDead | None = None,
    json: Json = False,
) -> None:
    """Add a task to a queue, and print its id. No program is imported: a worker checks the arguments.

    Parameters
    ----------
    delay
        Time to wait before the task may start, such as 2h.
    priority
        0 to 3; 0 is claimed first (default: 2).
    expires
        Time after which the task is cancelled if it has not started, such as 1d.
    unique
        Name of the task; while a task of this name is open, another one is not added.
    on_duplicate
        With --unique: keep the waiting task, or replace its arguments.
    key
        Key of the task; the tasks of a key run in order, one at a time. The queue needs partitions.
    on_dead
        With --key: the next task of the key goes on after a dead one (skip), or waits for its redrive (block).
    """
    call = admin.written_call(name, arguments).options(
        delay=delay,
        priority=priority,
        expires=expires,
        unique=unique,
        on_duplicate=on_duplicate,
        key=key,
        on_dead=on_dead,
    )
    report.print_enqueued(queue, _answer(admin.enqueue(url, queue, call), json=json), json=json)


def ls_tasks(
    url: Url,
    queue: QueueName,
    /,
    *,
    state: str = _OPEN,
    name: str | None = None,
    after: str | None = None,
    most: Whole = 100,
    json: Json = False,
) -> None:
    """List the tasks of a queue, a page at a time: open ones in their order, then ended ones by their end.

    Parameters
    ----------
    state
        States, separated by commas: ready, delayed, claimed, dead, cancelled, done.
    name
        Only tasks of this task function.
    after
        Place after which the page begins; the page before has printed it.
    most
        Number of tasks on a page.
    """
    states = parsed_states(state)
    page = _answer(admin.tasks(url, queue, states=states, name=name, after=after, most=most), json=json)
    report.print_page(queue, page, json=json)
    if not page.tasks:
        note_near_queue(url, queue)


def stats_tasks(url: Url, /, *, json: Json = False) -> None:
    """Show the numbers of each queue: tasks by state, workers, and how long the oldest ready task has waited."""
    report.print_stats(shown_url(url), _answer(admin.stats(url), json=json), json=json)


def workers_tasks(url: Url, /, *, json: Json = False) -> None:
    """List the live workers, with their queues and processes."""
    report.print_workers(shown_url(url), _answer(admin.workers(url), json=json), json=json)


def top_tasks(url: Url, /) -> None:
    """Show the numbers of each queue, its keys with most waiting tasks, and the workers, again every second.

    Ctrl-C ends it.
    """
    show_live(lambda: asyncio.run(_top(url)), lambda found: report.print_top(shown_url(url), found))


def show_tasks(url: Url, /, *ids: TaskId, group_url: GroupUrl = None, json: Json = False) -> int:
    """Show tasks: state, attempts, reason and arguments, and the owner of a key. Exit code 1 if one is not there."""
    rows = _answer(admin.show(url, *named(ids)), json=json)
    owners = {
        row.id: _answer(admin.owner(url, row.queue, row.key, group_url=group_url), json=json)
        for row in rows
        if row.key is not None
    }
    report.print_tasks(rows, owners, json=json)
    return int(any(row.state == "missing" for row in rows))


def why_tasks(url: Url, /, *ids: TaskId, group_url: GroupUrl = None, json: Json = False) -> None:
    """Show why tasks are not done yet, and the next step."""
    whys = [_answer(admin.why(url, each, group_url=group_url), json=json) for each in named(ids)]
    report.print_whys(whys, json=json)


def resize_tasks(
    url: Url,
    queue: QueueName,
    partitions: Annotated[Whole, Parameter(name="N", help="Number of partitions.")],
    /,
    *,
    group_url: GroupUrl = None,
    json: Json = False,
) -> None:
    """Give a queue another number of partitions, while no worker is there and no task with a key is open."""
    before = _answer(admin.resize(url, queue, partitions, group_url=group_url), json=json)
    report.print_resized(queue, before, partitions, json=json)
    note_near_queue(url, queue)


def cancel_tasks(url: Url, /, *ids: TaskId, chosen: Chosen = ALL_BY_ID, json: Json = False) -> int:
    """Cancel tasks: waiting ones at once; the worker of a running one is asked to end it. Exit code 1 if one had ended.

    Name tasks by id, or all ready and delayed ones of a queue: --queue mail
    """
    queue = chosen.ids_or_queue(ids)
    if queue is None:
        return _act("cancel", url, ids, admin.cancel, json=json)
    states = parsed_states(chosen.state or "ready,delayed")
    return _act_on_all("cancel", url, queue, admin.cancel_all(url, queue, states=states, name=chosen.name), json=json)


def retry_tasks(url: Url, /, *ids: TaskId, chosen: Chosen = ALL_BY_ID, json: Json = False) -> int:
    """Make delayed tasks ready now. Exit code 1 if one was not delayed.

    Name tasks by id, or all delayed ones of a queue: --queue mail
    """
    queue = chosen.ids_or_queue(ids)
    if queue is None:
        return _act("retry", url, ids, admin.retry, json=json)
    if parsed_states(chosen.state or "delayed") != ("delayed",):
        raise InvalidInput("--state", chosen.state, "delayed", "For dead tasks: apportion tasks redrive")
    return _act_on_all("retry", url, queue, admin.retry_all(url, queue, name=chosen.name), json=json)


def redrive_tasks(url: Url, /, *ids: TaskId, chosen: Chosen = ALL_BY_ID, json: Json = False) -> int:
    """Make dead and cancelled tasks ready again, with fresh budgets. Exit code 1 if one was neither.

    Name tasks by id, or all dead ones of a queue: --queue mail
    """
    queue = chosen.ids_or_queue(ids)
    if queue is None:
        return _act("redrive", url, ids, admin.redrive, json=json)
    states = parsed_states(chosen.state or "dead")
    return _act_on_all("redrive", url, queue, admin.redrive_all(url, queue, states=states, name=chosen.name), json=json)


def purge_tasks(url: Url, queue: QueueName, /, *, state: str, json: Json = False) -> None:
    """Forget the tasks of a queue in some states. This cannot be undone. A claimed task stays.

    Parameters
    ----------
    state
        States, separated by commas: ready, delayed, dead, cancelled, done.
    """
    states = parsed_states(state)
    if "claimed" in states:
        raise InvalidInput("--state", state, "no claimed tasks", "Cancel them first: apportion tasks cancel")
    report.print_purged(queue, states, _answer(admin.purge(url, queue, *states), json=json), json=json)
    note_near_queue(url, queue)


def pause_tasks(url: Url, queue: QueueName, /, *, json: Json = False) -> None:
    """Stop new starts of a queue, over all workers. Running tasks go on."""
    _answer(admin.pause(url, queue), json=json)
    report.print_control("pause", queue, "starts no task until apportion tasks resume", json=json)
    note_near_queue(url, queue)


def resume_tasks(url: Url, queue: QueueName, /, *, json: Json = False) -> None:
    """Allow the starts of a queue again."""
    _answer(admin.resume(url, queue), json=json)
    report.print_control("resume", queue, "starts tasks again", json=json)
    note_near_queue(url, queue)


def limit_tasks(
    url: Url,
    queue: QueueName,
    /,
    *,
    running: Annotated[
        Whole | None, Parameter(name=("--running", "--open"), help="Largest number of tasks that run at a time.")
    ] = None,
    rate: Annotated[str | None, Parameter(help="Largest number of starts per time, such as 100/min.")] = None,
    off: Annotated[bool, Parameter(help="Take away both limits.", negative="")] = False,
    json: Json = False,
) -> None:
    """Limit a queue over all workers. A limit that the command does not name is taken away."""
    limits = parsed_limits(running, rate, off=off)
    _answer(admin.limit(url, queue, running=limits.running, rate=limits.rate, per=limits.per), json=json)
    report.print_limits(queue, limits, json=json)
    note_near_queue(url, queue)


async def _top(url: str) -> report.Top:
    queues = await admin.stats(url)
    keys = {each.queue: await admin.busiest(url, each.queue, most=_MOST_KEYS) for each in queues if each.partitions}
    return queues, keys, await admin.workers(url)


def _answer(question: Coroutine[object, object, Answer], *, json: bool) -> Answer:
    with Progress("reading", is_shown=not json):
        return asyncio.run(question)


def _act(
    name: str, url: str, ids: tuple[str, ...], act: Callable[..., Coroutine[object, object, int]], *, json: bool
) -> int:
    """Act on tasks by id; print those that the act did not change, with their states."""
    named_once = {row.id: row for row in _answer(admin.show(url, *ids), json=json)}
    ids, before = tuple(named_once), tuple(named_once.values())
    changed = _answer(act(url, *ids), json=json)
    after = _answer(admin.show(url, *ids), json=json) if changed < len(ids) else before
    unchanged = [
        now
        for was, now in zip(before, after, strict=True)
        if was.state not in _CHANGEABLE[name] or (name != "cancel" and changed < len(ids) and was.state == now.state)
    ]
    report.print_act(name, changed, unchanged, json=json)
    return int(changed < len(ids))


def _act_on_all(name: str, url: str, queue: str, act: Coroutine[object, object, int], *, json: bool) -> int:
    changed = _answer(act, json=json)
    report.print_act(name, changed, [], json=json)
    if not changed:
        note_near_queue(url, queue)
    return 0
