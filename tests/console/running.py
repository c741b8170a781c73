"""Run the command line as a user does, in an empty folder: within this process (quick), or in one of its own."""

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from apportion.console.main import main

COMMAND = (sys.executable, "-m", "apportion.console.main")


@dataclass(frozen=True)
class Finished:
    """What a command left: like a finished process."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run(*arguments, folder, stdin=None):
    """Return what `apportion arguments` printed in `folder`, as bytes; standard input makes it a process of its own."""
    if stdin is not None:
        command = [*COMMAND, *map(str, arguments)]
        return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, timeout=60, check=False)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        # Arguments reach a program as bytes of the system; surrogates stand for those that are no text.
        code = main([os.fsdecode(os.fsencode(str(argument))) for argument in arguments])
    return Finished(code, out.buffer.getvalue(), err.buffer.getvalue())


def refused(process):
    """Return the message of a command that refused: exit code 1, what to do next, no traceback."""
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
