"""`apportion group top`: the screen follows the group, and Ctrl-C ends it."""

import os
import pty
import re
import signal
import subprocess
import threading

import pytest

from tests.console.grouping import URL, eventually, members
from tests.console.running import COMMAND, run


@pytest.mark.slow
def test_the_screen_follows_the_group_until_ctrl_c(tmp_path):
    ours, theirs = pty.openpty()
    seen, narrow = bytearray(), {**os.environ, "TERM": "xterm", "COLUMNS": "40"}
    with members(tmp_path, "first"):
        process = subprocess.Popen([*COMMAND, "group", "top", URL, "mailers"], cwd=tmp_path, stdout=theirs, env=narrow)
        os.close(theirs)
        threading.Thread(target=read, args=(ours, seen), daemon=True).start()
        eventually(lambda: re.search(rb"member +first", seen))  # a block of lines, for the table is too wide
        with members(tmp_path, "second"):
            eventually(lambda: b"second" in seen)
        process.send_signal(signal.SIGINT)
        assert 0 == process.wait(20)


@pytest.mark.slow
def test_without_a_terminal_the_group_is_shown_once(tmp_path):
    with members(tmp_path, "first"):
        shown = run("group", "top", URL, "mailers", folder=tmp_path)
        assert (0, run("group", "show", URL, "mailers", folder=tmp_path).stdout) == (shown.returncode, shown.stdout)


def read(descriptor, seen):
    """Add all that a terminal shows."""
    try:
        while piece := os.read(descriptor, 4096):
            seen.extend(piece)
    except OSError:  # the process has closed the terminal
        pass
