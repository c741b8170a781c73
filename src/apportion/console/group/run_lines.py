"""Reports: the lines of `apportion group run` on standard error, which decide nothing.

Promises: a report never waits and never fails. A thread writes the lines from a bounded queue. A line is dropped and
counted if the queue is full, or if standard error does not take it. The next line that is written gives the count.
Log messages of the library, from any thread, go through the same queue.
Refuses: to wait for unwritten lines for longer than a second after the end.
"""

import json
import logging
import os
import queue
import threading

from apportion.console.print.output import FORMAT_VERSION

MOST_LINES = 10_000
LAST_SECONDS = 1.0
_STANDARD_ERROR = 2


class Reports(logging.Handler):
    """The reports of one group, as text or as JSON. It is also a handler of logging, which reports log messages."""

    dropped: int

    def __init__(self, group: str, *, json: bool, descriptor: int = _STANDARD_ERROR) -> None:
        super().__init__()
        self.dropped = 0
        self.is_json = json
        self._group, self._descriptor = group, descriptor
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_LINES)
        self._thread = threading.Thread(target=self._write_all, name="apportion-reports", daemon=True)
        self._thread.start()

    def say(self, partition: int | None, event: str, text: str) -> None:
        """Report an event of a partition, or of the member."""
        try:
            self._lines.put_nowait(self.line(partition, event, text))
        except queue.Full:
            self.dropped += 1

    def emit(self, record: logging.LogRecord) -> None:
        """Report a log message."""
        self.say(None, "log", self.format(record))

    def end(self) -> None:
        """Wait until all lines are written, for a second at most."""
        try:
            self._lines.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(LAST_SECONDS)

    def line(self, partition: int | None, event: str, text: str) -> str:
        """Return the line of an event of a partition, or of the member."""
        if self.is_json:
            facts = {"group": self._group, "event": event, "partition": partition, "text": text}
            return json.dumps({"format_version": FORMAT_VERSION, "command": "group run", **facts}, ensure_ascii=False)
        return f"{self._group}: {text}" if partition is None else f"{self._group}/{partition}: {text}"

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            if self.dropped and self._is_written(self.line(None, "dropped", f"{self.dropped} reports were dropped")):
                self.dropped = 0
            if not self._is_written(line):
                self.dropped += 1

    def _is_written(self, line: str) -> bool:
        """Write without the streams of Python.

        A write that waits in such a stream holds a lock, and the process needs this lock to end.
        """
        rest = f"{line}\n".encode(errors="backslashreplace")
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return False
        return True
