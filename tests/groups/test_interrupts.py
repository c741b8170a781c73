"""Ctrl-C at any moment of the beginning or the end of a sync block: what it has opened is closed on the I/O thread."""

import dis
import gc
import logging
import sqlite3
import sys
import time
from contextlib import closing
from datetime import timedelta
from functools import lru_cache, partial
from itertools import pairwise

import pytest

import apportion
from tests.groups.turns import PATIENCE_SECONDS, descriptors, tasks

FILES = (
    "runtime/resource.py",
    "runtime/io_thread.py",
    "runtime/thread_call.py",
    "groups/group.py",
    "sync/groups.py",
    "groups/participation.py",
)


class Interrupt:
    """Raises KeyboardInterrupt at the n-th place of our files where CPython could: it looks for signals where a Python
    function begins, after a call of C, and before a loop goes round."""

    def __init__(self, number):
        self.number, self.places, self._callers = number, 0, set()
        self.where = ""

    def __call__(self, work):
        sys.settrace(self._trace)
        try:
            work()
        finally:
            sys.settrace(None)

    def _trace(self, frame, event, argument):
        if event == "call":
            self._callers.add(frame.f_back)
            frame.f_trace_opcodes = frame.f_code.co_filename.endswith(FILES)
            return self._trace if frame.f_trace_opcodes else None
        if event == "opcode":
            before = _before(frame.f_code).get(frame.f_lasti)
            was_python = frame in self._callers
            self._callers.discard(frame)
            if before in ("RESUME", "JUMP_BACKWARD") or (before in ("CALL", "CALL_FUNCTION_EX") and not was_python):
                self.places += 1
                if self.places == self.number:
                    sys.settrace(None)
                    self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}, after {before}"
                    raise KeyboardInterrupt
        return self._trace


@lru_cache
def _before(code):
    """Return, by its place, which instruction comes before each."""
    names = [(each.offset, each.opname) for each in dis.get_instructions(code)]
    return {offset: before for (_, before), (offset, _) in pairwise(names)}


def wait_until_nothing_is_left(left):
    ends = time.monotonic() + PATIENCE_SECONDS
    while found := left():
        assert time.monotonic() < ends, found
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # the one that was not begun
@pytest.mark.parametrize("end", ["beginning", "end"])
@pytest.mark.parametrize("call", ["a group", "a store"])
def test_nothing_is_left_of_a_block_that_is_interrupted_at_any_moment_of_either_end(tmp_path, call, end, caplog):
    caplog.set_level(logging.ERROR, "apportion.group")
    path = tmp_path / "s.db"

    def opened():
        if call == "a store":
            return apportion.sync.open_store(f"sqlite:///{path}")
        ttl = timedelta(seconds=5)
        return apportion.sync.open_group(f"sqlite:///{path}", "g", partitions=2, member_id="a", lease_ttl=ttl)

    def leases():
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM lease").fetchone()[0]

    with opened():
        pass
    wait_until_nothing_is_left(tasks)
    before, number, was_there = descriptors(), 0, True
    while was_there:
        number += 1
        block, interrupt = opened(), Interrupt(number)
        if end == "end":
            block.__enter__()
        try:
            interrupt(block.__enter__ if end == "beginning" else partial(block.__exit__, None, None, None))
        except KeyboardInterrupt:
            pass
        else:
            was_there = False
        if end == "beginning" and not was_there:
            block.__exit__(None, None, None)
        if "__exit__" in interrupt.where and interrupt.where.endswith("RESUME"):  # too early: nothing of it has run
            block.__exit__(None, None, None)
        wait_until_nothing_is_left(lambda at=interrupt.where: (tasks() or leases() or descriptors() > before) and at)
    assert number > 10
    gc.collect()  # of what was not begun, while nobody minds
