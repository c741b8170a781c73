"""Log report: lines of a log, for work that goes on whatever a handler of the program does with them."""

import logging
from contextlib import suppress


def report(logger: logging.Logger, level: int, words: str, *values: object, error: BaseException | None = None) -> None:
    """Log a line. A log handler that raises costs the line, and not the work of the caller."""
    with suppress(Exception):
        logger.log(level, words, *values, exc_info=error, stacklevel=2)
