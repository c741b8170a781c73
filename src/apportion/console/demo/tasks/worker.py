"""Worker of the demonstration of tasks, a separate process: it counts the functions in files until SIGTERM.

python -m apportion.console.demo.tasks.worker
"""

import asyncio

from apportion.console.demo.stalls import work
from apportion.console.demo.tasks.library import queue

CONCURRENCY = 2

if __name__ == "__main__":
    asyncio.run(work(queue.worker(concurrency=CONCURRENCY)))
