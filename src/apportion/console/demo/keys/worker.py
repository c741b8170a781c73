"""Worker of the demonstration of keys, a separate process: it visits places until SIGTERM.

python -m apportion.console.demo.keys.worker
"""

import asyncio
import os
from datetime import timedelta

import apportion
from apportion.console.demo.keys.atlas import queue
from apportion.console.demo.stalls import work
from apportion.console.demo.traces import WORKER_VARIABLE

CONCURRENCY = 4

if __name__ == "__main__":
    _member = apportion.LaneMember(member_id=os.environ[WORKER_VARIABLE], settle=timedelta(seconds=0.2))
    asyncio.run(work(queue.worker(concurrency=CONCURRENCY, member=_member)))
