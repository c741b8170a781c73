"""Report: the output of the commands of tasks, as text of at most 80 columns where names are short, or as JSON."""

import json as json_format
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.tasks.options import Limits
from apportion.stores.keys.questions import KeyStats
from apportion.stores.lanes.values import KEYED_LANES
from apportion.stores.task_control import QueueStats, TaskRow
from apportion.stores.task_values import TaskState, Worker
from apportion.work.admin import KeyOwner, TaskPage, Why
from apportion.work.facade import TaskHandle

Top = tuple[Sequence[QueueStats], Mapping[str, Sequence[KeyStats]], Sequence[Worker]]
COUNTS = ("ready", "delayed", "claimed", "dead", "cancelled", "workers")
_DONE = {"cancel": "cancelled, or asked to stop", "retry": "ready now", "redrive": "ready again"}


def print_stats(store: str, found: Sequence[QueueStats], *, json: bool) -> None:
    """Print a line per queue."""
    if json:
        print_json("tasks stats", store=store, queues=list(map(_stats_member, found)))
        return
    _print_queues(found)
    print_text(f"tasks stats: {store}: {_count(len(found), 'queue')}")


def print_workers(store: str, found: Sequence[Worker], *, json: bool) -> None:
    """Print a line per worker."""
    if json:
        print_json("tasks workers", store=store, workers=list(map(_worker_member, found)))
        return
    _print_live(found)
    print_text(f"tasks workers: {store}: {_count(len(found), 'worker')}")


def print_top(store: str, found: Top) -> None:
    """Print the queues and the workers of a store."""
    queues, keys, workers = found
    _print_queues(queues)
    _print_keys(keys)
    _print_live(workers)
    print_text(f"tasks top: {store}: {_count(len(queues), 'queue')}, {_count(len(workers), 'worker')}")


def print_page(queue: str, page: TaskPage, *, json: bool) -> None:
    """Print a line per task, and the place at which the next page begins."""
    if json:
        print_json("tasks ls", queue=queue, tasks=list(map(_task_member, page.tasks)), after=page.after)
        return
    if page.tasks:
        print_columns(
            ("task", "name", "state", "attempt", "time (UTC)"), list(map(_cells_of_task, page.tasks)), words=3
        )
        print()
    print_text(f"tasks ls: {queue}: {_count(len(page.tasks), 'task')}")
    if page.after is not None:
        print_text(f"There are more: --after {page.after}")


def print_tasks(rows: Sequence[TaskRow], owners: Mapping[str, KeyOwner], *, json: bool) -> None:
    """Print a block of lines per task; `owners` are those of the keys, by the id of the task."""
    if json:
        print_json("tasks show", tasks=[_task_member(row) | _owner_member(owners.get(row.id)) for row in rows])
        return
    for place, row in enumerate(rows):
        print("\n" * bool(place) + row.id)
        _print_facts({"state": row.state} if row.state == "missing" else _facts(row))
        if (owner := owners.get(row.id)) is not None:
            _print_facts({"lane": f"{owner.partition}, owned by {owner.owner or 'nobody'}"})


def print_whys(found: Sequence[Why], *, json: bool) -> None:
    """Print a block of lines per task: its state, the cause, and the next step."""
    if json:
        tasks = [{"cause": each.cause, "next_step": each.next_step, **_task_member(each.task)} for each in found]
        print_json("tasks why", tasks=tasks)
        return
    for place, each in enumerate(found):
        row = each.task
        print("\n" * bool(place) + row.id)
        facts = {"state": row.state, "cause": each.cause, "reason": row.reason, "next": each.next_step}
        _print_facts(facts if row.state == "missing" else {"queue": row.queue, "name": row.name, **facts})


def print_enqueued(queue: str, handle: TaskHandle, *, json: bool) -> None:
    """Print the id of a task."""
    if json:
        print_json("tasks enqueue", queue=queue, id=handle.id, created=handle.created)
        return
    print(handle.id)
    if not handle.created:
        print_text("note: a task of this unique name was there already; this is its id")


def print_act(act: str, changed: int, unchanged: Sequence[TaskRow], *, json: bool) -> None:
    """Print how many tasks an act changed, and the states of the other tasks."""
    if json:
        rest = [{"id": row.id, "state": row.state} for row in unchanged]
        print_json(f"tasks {act}", changed=changed, unchanged=rest)
        return
    print_text(f"tasks {act}: {_count(changed, 'task')} {_DONE[act]}")
    for row in unchanged:
        print_text(f"note: {row.id} stays as it is: {row.state}")


def print_purged(queue: str, states: Sequence[TaskState], count: int, *, json: bool) -> None:
    """Print how many tasks are forgotten."""
    if json:
        print_json("tasks purge", queue=queue, states=states, purged=count)
        return
    print_text(f"tasks purge: {queue} has forgotten {_count(count, 'task')}: {', '.join(states)}")


def print_control(act: str, queue: str, text: str, *, json: bool) -> None:
    """Print that a queue is paused or resumed."""
    if json:
        print_json(f"tasks {act}", queue=queue, paused=act == "pause")
    else:
        print_text(f"tasks {act}: {queue} {text}")


def print_limits(queue: str, limits: Limits, *, json: bool) -> None:
    """Print the limits of a queue."""
    if json:
        per_seconds = None if limits.rate is None else limits.per.total_seconds()
        print_json("tasks limit", queue=queue, open=limits.running, rate=limits.rate, per_seconds=per_seconds)
    else:
        print_text(f"tasks limit: {queue} {limits}")


def print_resized(queue: str, before: int | None, after: int, *, json: bool) -> None:
    """Print the number of partitions of a queue before and after."""
    if json:
        print_json("tasks resize", queue=queue, before=before, partitions=after)
    else:
        print_text(f"tasks resize: {queue} has {after} partitions (before: {before or 'none'})")


def _print_keys(keys: Mapping[str, Sequence[KeyStats]]) -> None:
    """Print the keys with most waiting tasks."""
    rows = [
        (queue, each.key, str(each.waiting), str(each.lane - KEYED_LANES)) for queue in keys for each in keys[queue]
    ]
    if rows:
        print_columns(("queue", "key", "waiting", "lane"), rows, words=2)
        print()


def _print_queues(found: Sequence[QueueStats]) -> None:
    if not found:
        return
    rows = [(each.queue, *(str(getattr(each, name)) for name in COUNTS), _oldest(each)) for each in found]
    print_columns(("queue", *COUNTS, "oldest"), rows)
    print()
    for each in found:
        if each.is_paused:
            print_text(f"note: {each.queue} is paused: apportion tasks resume URL {each.queue}")
        if each.open_claims is not None or each.rate is not None:
            print_text(f"note: {each.queue} {Limits.of(each)}")


def _print_live(found: Sequence[Worker]) -> None:
    if found:
        rows = [(each.name, ", ".join(each.queues), str(each.concurrency), f"{each.session:x}") for each in found]
        print_columns(("worker", "queues", "concurrency", "session"), rows, words=2)
        print()


def _print_facts(facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        if fact:
            print_text(f"  {name:<11}{fact}")


def _facts(row: TaskRow) -> dict[str, str]:
    counted = [(row.failures, "failure"), (row.deaths, "death"), (row.crashes, "crash")]
    budget = ", ".join(_count(number, word) for number, word in counted if number)
    return {
        "queue": row.queue,
        "name": row.name,
        "state": row.state + (", asked to stop" if row.is_cancelling else ""),
        "attempt": f"{row.attempt}" + (f" ({budget})" if budget else ""),
        "deaths": ", ".join(f"session {each:x}" for each in row.deaths_of),
        "reason": row.reason,
        "priority": "" if row.key is not None else f"{row.lane}",
        "key": row.key or "",
        "unique": row.unique or "",
        "enqueued": _time(row.enqueued),
        "due": "" if row.ended_at is not None else _time(row.due),
        "expires": _time(row.expires_at),
        "ended": _time(row.ended_at),
        "progress": f"{row.progress:.0%} {row.note}".strip() if row.progress or row.note else "",
        "arguments": _text(row.arguments),
        "result": "" if row.result is None else _text(row.result),
    }


def _cells_of_task(row: TaskRow) -> tuple[str, ...]:
    moment = row.ended_at or (row.due if row.state == "delayed" else None) or row.enqueued
    return row.id, row.name, row.state, str(row.attempt), _time(moment)[5:-4]


def _stats_member(stats: QueueStats) -> dict[str, object]:
    return {
        "queue": stats.queue,
        **{name: getattr(stats, name) for name in COUNTS},
        "oldest_ready_seconds": stats.oldest_ready_ms / 1_000,
        "partitions": stats.partitions,
        "paused": stats.is_paused,
        "open": stats.open_claims,
        "rate": stats.rate,
        "per_seconds": None if stats.rate is None else stats.per_ms / 1_000,
    }


def _worker_member(worker: Worker) -> dict[str, object]:
    names = ("name", "host", "pid", "concurrency", "session")
    return {"queues": list(worker.queues), **{name: getattr(worker, name) for name in names}}


def _task_member(row: TaskRow) -> dict[str, object]:
    if row.state == "missing":
        return {"id": row.id, "state": row.state}
    names = ("id", "queue", "name", "state", "attempt", "failures", "deaths", "crashes", "reason", "progress", "note")
    return {
        **{name: getattr(row, name) for name in names},
        "deaths_of": [f"{each:x}" for each in row.deaths_of],
        "priority": row.lane if row.key is None else None,
        "key": row.key,
        "unique": row.unique,
        "cancelling": row.is_cancelling,
        "enqueued": _moment(row.enqueued),
        "due": _moment(row.due),
        "expires": _moment(row.expires_at),
        "ended": _moment(row.ended_at),
        "arguments": _value(row.arguments),
        "result": None if row.result is None else _value(row.result),
    }


def _owner_member(owner: KeyOwner | None) -> dict[str, object]:
    return {} if owner is None else {"partition": owner.partition, "owner": owner.owner}


def _value(data: bytes) -> object:
    """Return the value of JSON, or the text of bytes that are no JSON."""
    try:
        return json_format.loads(data)
    except ValueError:
        return _text(data)


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _moment(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1_000, UTC).isoformat(timespec="milliseconds")


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return f"{datetime.fromtimestamp(milliseconds / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _oldest(stats: QueueStats) -> str:
    return f"{stats.oldest_ready_ms / 1_000:.0f} s" if stats.ready else ""


def _count(number: int, word: str) -> str:
    plural = {"crash": "crashes"}.get(word, f"{word}s")
    return f"{number} {word if number == 1 else plural}"
