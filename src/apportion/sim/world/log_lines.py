"""Log lines: puts the log lines of groups between the other lines of a world's trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import DEBUG, Handler, LogRecord

from apportion.groups.log import logger
from apportion.sim.world.trace import Trace


@contextmanager
def logged(trace: Trace) -> Iterator[None]:
    """If the trace keeps a story, send the log of groups there and nowhere else. Otherwise the log is unchanged."""
    if trace.lines is None:
        yield
        return
    story, level, propagate = _Story(trace), logger.level, logger.propagate
    logger.addHandler(story)
    logger.setLevel(DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(story)
        logger.setLevel(level)
        logger.propagate = propagate


class _Story(Handler):
    """Puts log lines into a story."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def emit(self, record: LogRecord) -> None:
        """See `Handler`."""
        self._trace.note(record.getMessage())
