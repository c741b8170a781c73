"""Ctrl-C in the workers of the documentation: they leave, and end without a traceback."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.console.grouping import URL, eventually
from tests.console.running import run

pytestmark = pytest.mark.live
PAGE = (Path(__file__).parents[2] / "docs" / "groups" / "index.md").read_text()
WORKERS = dict(re.findall(r"<!-- file: (\w+\.py) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize("name", ["worker.py", "plain_worker.py"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_documented_worker_that_is_asked_to_end_leaves_and_ends_without_a_traceback(name, number, tmp_path):
    (tmp_path / name).write_text(WORKERS[name])
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as errors:
        process = subprocess.Popen([sys.executable, name], cwd=tmp_path, stdout=out, stderr=errors)
    try:
        eventually(lambda: "gained (0" in (tmp_path / "out").read_text())
        began = time.monotonic()
        process.send_signal(number)
        assert 0 == process.wait(10)
        assert 5 > time.monotonic() - began
    finally:
        process.kill()
        process.wait()
    assert "" == (tmp_path / "err").read_text()
    shown = run("group", "show", URL, "mailers", folder=tmp_path).stdout.decode()
    assert "0 members" in shown
