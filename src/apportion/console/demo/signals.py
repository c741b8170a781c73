"""Signals of a demonstration: SIGTERM and SIGHUP end it as Ctrl-C does, with its processes and its temporary folder."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block, the first signal raises `KeyboardInterrupt` or `SystemExit`. Later ones are ignored.

    So no second Ctrl-C stops the clean-up. A signal that is ignored already, as by nohup, stays so.
    """
    before = {each: signal.getsignal(each) for each in _ENDS}
    heard = [each for each, handler in before.items() if handler is not signal.SIG_IGN]

    def _end(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    for each in heard:
        signal.signal(each, _end)
    try:
        yield
    finally:
        for each in heard:
            signal.signal(each, before[each])
