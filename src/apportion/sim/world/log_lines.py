"""Story: what groups log while a world runs is told between the lines of its trace, where somebody reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import DEBUG, Handler, LogRecord

from apportion.groups.driver import logger
from apportion.sim.world.trace import Trace


@contextmanager
def logged(trace: Trace) -> Iterator[None]:
    """Let the log of groups be part of a story that is kept, and of nothing else; without one it goes where it went."""
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
