"""The task function of workers that are killed; a child process can import it. The environment has its place.

Each run writes lines `WORD NUMBER ATTEMPT WORKER SECONDS PID` to the log, in one write each: `begun`, then `tried`
before it settles, then `done`, `refused` or `failed`. The PID is the worker, or a child of it that runs a suspect. It
works a little, and inserts its effect in the transaction that completes the task. The table of effects has no unique
key, so a second completion would be seen.
"""

import os
import random
import time
from datetime import timedelta

import apportion
from apportion.errors import ApportionError, ClaimLost, LeaseLost

TTL = timedelta(seconds=2)
URL, LOG, DEATHS, WORKER = [f"APPORTION_KILLED_{each}" for each in ("URL", "LOG", "DEATHS", "WORKER")]
OPTIONS = {"first_delay": timedelta(milliseconds=50), "longest_delay": timedelta(seconds=1), "failures": 1_000}

queue = apportion.Queue(os.environ.get(URL, "memory://killed"), "kills", lease_ttl=TTL)
_mark = "?" if os.environ.get(URL, "").startswith("sqlite") else "%s"
_log = os.open(os.environ.get(LOG, os.devnull), os.O_APPEND | os.O_WRONLY | os.O_CREAT)


def _say(word, number):
    task = apportion.current_task()
    line = f"{word} {number} {task.attempt} {os.environ.get(WORKER, os.getpid())} {time.monotonic()} {os.getpid()}\n"
    os.write(_log, line.encode())


@queue.task(name="effect", deaths=int(os.environ.get(DEATHS, "0")) or None, **OPTIONS)
def effect(number: int, seconds: float) -> None:
    """Work for a random time, and take effect once."""
    _say("begun", number)
    time.sleep(seconds * random.random())
    _say("tried", number)
    try:
        with apportion.current_task().transaction() as connection:
            values = (number, apportion.current_task().attempt)
            connection.execute(f"INSERT INTO effect VALUES ({_mark}, {_mark})", values)
    except (ClaimLost, LeaseLost):
        _say("refused", number)
        raise
    except ApportionError:
        _say("failed", number)
        raise
    _say("done", number)
