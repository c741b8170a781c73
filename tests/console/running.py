"""Run the command line as a user does: in its own process, in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

COMMAND = (sys.executable, "-m", "apportion.console.main")


def run(*arguments, folder, stdin=None, **environment):
    """Return the finished process of `apportion arguments`; output as bytes."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONWARNINGS": "error", **environment},
        check=False,
    )


def refused(process):
    """Return the message of a command that refused: exit code 1, three lines or fewer, no traceback, no output."""
    message = process.stderr.decode()
    assert 1 == process.returncode, message
    assert message.startswith("error: "), message
    assert "Traceback" not in message
    assert len(message.splitlines()) >= 2, "an error names the next step"
    return message


def written(folder, name, text):
    """Write a file and return its path."""
    path = Path(folder) / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
