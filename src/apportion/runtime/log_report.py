"""Log report: log lines for work that must not stop when a log handler of the program raises."""

import logging
from contextlib import suppress


def report(logger: logging.Logger, level: int, words: str, *values: object, error: BaseException | None = None) -> None:
    """Log a line. If a log handler raises, even SystemExit, the line is lost, and the work of the caller goes on.

    SystemExit would end the I/O thread without a trace, and each caller would wait for ever.
    """
    with suppress(Exception, SystemExit):
        logger.log(level, words, *values, exc_info=error, stacklevel=2)
