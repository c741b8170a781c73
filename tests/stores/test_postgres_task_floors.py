"""Enqueues that commit late, while workers drain: none is left behind below the floor of a claim.

Each bug that would leave one behind is planted once: no rescan, a low mark that moves by time, a position that is drawn
before the number of its transaction.
"""

import asyncio
import random
import time
from contextlib import ExitStack
from unittest.mock import patch

import pytest

from apportion.stores.postgres.schema import Schema
from apportion.stores.postgres.tasks import floors
from apportion.stores.postgres.tasks.statements import enqueue_statement
from tests.stores.task_bugs import function
from tests.stores.test_postgres_tasks import rig, schema, url
from tests.stores.test_postgres_tasks_at_once import administrator, fill, incarnation, opened, worker
from tests.stores.test_tasks import task

__all__ = ["rig", "schema", "url"]
pytestmark = pytest.mark.live
LATE = 50
QUICK_SECONDS = 0.05  # between two rescans, where a test need not wait for the usual ones
LONGEST_SECONDS, PATIENCE_SECONDS = 3.0, 20.0


async def left_behind(rig, schema, url, *, longest_seconds, patience_seconds):
    """Hold enqueues open, and commit them in random order while two workers drain; return how many are never found."""
    async with opened(url, 2) as (store, handles):
        owns, life = [await worker(store) for _ in handles], incarnation(rig, schema)
        made, claimed = [task() for _ in range(LATE)], set()
        with ExitStack() as stack:
            held = [stack.enter_context(administrator(rig)) for _ in made]
            for connection, each in zip(held, made, strict=True):
                statement, values = enqueue_statement([each])
                connection.execute(Schema(schema).fill(statement), [life, 1_000, *values])
            began = time.monotonic()
            ends = sorted((began + random.uniform(0, longest_seconds), place) for place in range(len(held)))
            while len(claimed) < LATE and time.monotonic() < began + longest_seconds + patience_seconds:
                while ends and ends[0][0] <= time.monotonic():
                    held[ends.pop(0)[1]].commit()
                answers = await asyncio.gather(
                    *[each.turn(own, want=3) for each, own in zip(handles, owns, strict=True)]
                )
                claims = [claim.task for answer in answers for claim in answer.claims]
                assert not claimed & set(claims)
                claimed |= set(claims)
                await handles[0].wait(0.02)
        return LATE - len(claimed)


def test_nothing_is_left_behind_though_enqueues_commit_late_and_in_random_order(rig, schema, url):
    seconds = {"longest_seconds": LONGEST_SECONDS, "patience_seconds": PATIENCE_SECONDS}
    assert 0 == asyncio.run(left_behind(rig, schema, url, **seconds))


def moved_by_time(self, queues, left_at, *, oldest_open, mark, now, took):
    """Move the low positions with time, whatever runs."""
    del oldest_open, left_at
    return RESCANNED(self, queues, [None] * 4 * len(queues), oldest_open=mark, mark=mark, now=now, took=took)


RESCANNED = floors.Floors.rescanned
BUGS = {
    "a floor without a rescan": ("is_rescan", lambda *_: False),
    "a low mark that moves by time": ("rescanned", moved_by_time),
}


@pytest.mark.parametrize("bug", BUGS)
def test_tasks_are_left_behind_by(rig, schema, url, bug):
    with patch.object(floors.Floors, *BUGS[bug]), patch.multiple(floors, _LEAST_SECONDS=QUICK_SECONDS, _REST_RATIO=0):
        assert 0 < asyncio.run(left_behind(rig, schema, url, longest_seconds=1.0, patience_seconds=2.0))


async def found_below_the_floor(rig, schema, url):
    """Draw a position, let later tasks be claimed over many rescans, then add the task; whether it is claimed."""
    async with opened(url, 1) as (store, [tasks]):
        own = await worker(store)
        rig.sql(f"SELECT {schema}.next_position()")  # the first of 32 positions is logged, and that draws a number too
        with administrator(rig) as connection:
            [(position,)] = connection.execute(f"SELECT {schema}.next_position()").fetchall()
            ends = time.monotonic() + 20 * QUICK_SECONDS
            while time.monotonic() < ends:
                await tasks.enqueue([task()])
                assert 1 == len((await tasks.turn(own, want=2)).claims)
                await tasks.wait(QUICK_SECONDS / 5)
            fill(connection, schema, 1)
            connection.execute(f"UPDATE {schema}.task SET pos = {position} WHERE session IS NULL")
        ends = time.monotonic() + 1.0
        while time.monotonic() < ends:
            if (await tasks.turn(own, want=1)).claims:
                return True
            await tasks.wait(QUICK_SECONDS)
        return False


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_position_is_drawn_after_the_number_of_its_transaction(rig, schema, url, is_sound):
    async def _made():
        async with opened(url, 1):
            return

    asyncio.run(_made())
    with ExitStack() as stack:
        stack.enter_context(patch.multiple(floors, _LEAST_SECONDS=QUICK_SECONDS, _REST_RATIO=0))
        if not is_sound:
            stack.enter_context(function(rig, "next_position", ("PERFORM txid_current();", ""), schema=schema))
        assert is_sound == asyncio.run(found_below_the_floor(rig, schema, url))
