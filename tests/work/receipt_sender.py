"""A process that acts on claims by their receipts alone, as text: python -m tests.work.receipt_sender

It reads lines `[URL, VERB, RECEIPT]` in JSON from its standard input, and answers each with a line: the name of the
error that refused the receipt, or `counted`.
"""

import asyncio
import json
import sys
from datetime import timedelta

from apportion.errors import ClaimLost
from apportion.guards.connections import run
from apportion.stores.catalog import connect_tasks
from apportion.stores.task_once import OnceStep
from apportion.stores.task_values import Claim, Note, Settlement, Worker
from apportion.work.running_task import RunningTask, parsed_receipt

FATES = {
    "complete": {"fate": "done"},
    "complete with a result": {"fate": "done", "result": b"r"},
    "fail": {"fate": "retry"},
    "fail for ever": {"fate": "dead"},
    "release": {"fate": "released"},
    "crashed": {"fate": "crashed"},
    "cancelled": {"fate": "cancelled"},
}
VERBS = [*FATES, "note", "once", "transaction", "extend"]


async def sent(tasks, verb, text):
    """Act on a claim; return `counted`, or the name of the error."""
    receipt = parsed_receipt(text)
    if verb == "note":
        refused = (await tasks.beat(receipt.session, [Note(receipt=receipt, progress=0.9, text="late")])).refused
    elif verb == "once":
        step = OnceStep(scope="q", key=receipt.task, receipt=receipt)
        refused = (await tasks.once(step)).found == "refused"
    elif verb == "extend":
        return extended(receipt)
    elif verb == "transaction":
        statement = tasks.transactions.completion(receipt)
        with tasks.transactions.begin() as connection:
            refused = not run(connection, statement.sql, statement.values).fetchall()
    else:
        worker = Worker(session=receipt.session, queues=("q",))
        refused = (await tasks.turn(worker, [Settlement(receipt=receipt, **FATES[verb])])).refused
    return ClaimLost.__name__ if refused else "counted"


class Run:
    """The desk and the limit of a run that does not know that its claim is lost."""

    moved = None

    def seconds_left(self, session):
        return 5.0

    def move(self, length):
        self.moved = length


def extended(receipt):
    """Extend the run of a claim; say so if this has moved the limit of that run, and asked no store."""
    run = Run()
    numbers = dict.fromkeys(("failures", "deaths", "crashes", "enqueued"), 0)
    claim = Claim(receipt=receipt, queue="q", lane=2, name="f", codec="json", arguments=b"{}", trace="", **numbers)
    RunningTask(claim, 1, run, run).extend(timedelta(seconds=7))
    return "its own limit" if run.moved == timedelta(seconds=7) else "nothing"


async def main():
    """Answer each line."""
    handles = {}
    for line in sys.stdin:
        url, verb, text = json.loads(line)
        if url not in handles:
            handles[url] = await connect_tasks(url)
        print(await sent(handles[url], verb, text), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
