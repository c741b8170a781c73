"""Ledgers: the threads of a process of writers, each with a ledger of its own in a folder.

The process says `ready` when its threads run, and ends when its input ends.
"""

import os
import sys
import threading

import apportion.sync
from tests.shards.sample import SET, Base


def write_until_the_input_ends(work, url, folder, first, writers):
    """Run `work(router, writer, ledger, stopped)` in a thread for each writer, from the number `first` on."""
    with apportion.sync.open_shards(url, SET, base=Base) as router:
        write_with(router, work, folder, first, writers)


def write_with(router, work, folder, first, writers):
    """Let the writers work with a router until the input ends."""
    stopped = threading.Event()
    threads = []
    for writer in range(int(first), int(first) + int(writers)):
        ledger = os.open(f"{folder}/ledger-{writer}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        threads.append(threading.Thread(target=work, args=(router, writer, ledger, stopped)))
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    stopped.set()
    for thread in threads:
        thread.join()
