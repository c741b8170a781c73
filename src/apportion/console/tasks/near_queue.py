"""Near queue: a note that a queue has no tasks and no workers, and that another queue has nearly its name.

A queue needs no declaration: it can be paused before its first task. So a misspelt name is no error.
"""

import asyncio
import sys

from apportion.errors import nearest, shown
from apportion.stores.task_control import QueueStats
from apportion.work import admin


def note_near_queue(url: str, queue: str) -> None:
    """Print a note if the queue has no tasks and no workers, and another queue has nearly its name."""
    found = asyncio.run(admin.stats(url))
    if any(each.queue == queue and not _is_idle(each) for each in found):
        return
    near = nearest(queue, [each.queue for each in found if each.queue != queue])
    if near is not None:
        print(f"note: queue {shown(queue)} has no tasks and no workers.\nDid you mean {near!r}?", file=sys.stderr)


def _is_idle(stats: QueueStats) -> bool:
    return not any((stats.ready, stats.delayed, stats.claimed, stats.dead, stats.cancelled, stats.workers))
