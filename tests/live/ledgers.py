"""Ledgers: the threads of a process of writers, each with a ledger of its own in a folder.

The process says `ready` when its threads run, and ends when its input ends. It fails if a thread has failed.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import apportion.sync
from tests.shards.sample import SET, Base


def write_until_the_input_ends(work, url, folder, first, writers):
    """Run `work(router, writer, ledger, stopped)` in a thread for each writer, from the number `first` on."""
    with apportion.sync.open_shards(url, SET, base=Base) as router:
        write_with(router, work, folder, first, writers)


def write_with(router, work, folder, first, writers):
    """Let the writers work with a router until the input ends. Raise the error of a writer."""
    stopped, numbers = threading.Event(), range(int(first), int(first) + int(writers))
    with ThreadPoolExecutor(len(numbers)) as threads:
        working = []
        for writer in numbers:
            ledger = os.open(f"{folder}/ledger-{writer}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            working.append(threads.submit(work, router, writer, ledger, stopped))
        print("ready", flush=True)
        sys.stdin.read()
        stopped.set()
    for each in working:
        each.result()
