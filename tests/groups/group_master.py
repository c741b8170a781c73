"""The master of a prefork server: it opens the group, and then forks workers that each open it again, as their own.

`python -m tests.groups.group_master`; the first line of its standard input is that of a `group_worker`, with
`workers`, their ids. It forks in the middle of a hold, and one child more, which ends by `sys.exit(5)` there; it says
`ready`, then which process each worker is and how the `stray` ended. After its own group was left, as at SIGTERM, a
line `end` makes it end its workers and say with which statuses they did. At the end of its input all of them die.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress

from apportion import sync
from tests.groups import group_worker


def fork(work):
    """Return the process that does some work, and then ends whatever it is in the middle of."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work()
    return child


def ended(child):
    """Return the status of a child, once it has one."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def work_as(name, said, alive):
    """Be a worker; when nobody holds the pipe any more, as when the master died, it dies too."""
    os.dup2(alive[0], sys.stdin.fileno())
    os.close(alive[1])
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    asyncio.run(group_worker.main(said | {"member_id": name}))
    os._exit(0)


def main(said):
    """Lead workers as the first line says."""
    workers, alive = said.pop("workers"), os.pipe()
    own = {name: value for name, value in said.items() if name not in ("url", "log", "work")}
    with sync.open_group(said["url"], "work", **own) as group:
        group.wait_until_settled()
        for change in group.changes():
            with group.hold(change.gained[0]):  # the worst place to fork from
                children = {name: fork(lambda name=name: work_as(name, said, alive)) for name in workers}
                stray = fork(lambda: sys.exit(5))
            break
        print("ready", flush=True)
        print(json.dumps(children | {"stray": ended(stray)}), flush=True)
        for change in group.changes():
            del change
    if not sys.stdin.readline():
        os._exit(1)
    for child in children.values():
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
    print(json.dumps({name: ended(child) for name, child in children.items()}), flush=True)


if __name__ == "__main__":
    main(group_worker.told())
