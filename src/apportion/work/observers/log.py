"""Log: one line of the logger `apportion.work` at the end of each attempt of a task."""

import logging

from apportion.runtime.attempt_events import (
    AttemptCancelled,
    AttemptCrashed,
    AttemptDead,
    AttemptDone,
    AttemptEnded,
    AttemptEvent,
    AttemptFailed,
    AttemptLost,
    AttemptRefused,
    AttemptReleased,
)
from apportion.runtime.log_report import report

logger: logging.Logger = logging.getLogger("apportion.work")
_WORDS: dict[type[AttemptEvent], tuple[int, str]] = {
    AttemptDone: (logging.INFO, "is done"),
    AttemptFailed: (logging.WARNING, "failed"),
    AttemptDead: (logging.ERROR, "failed, and the task is dead"),
    AttemptReleased: (logging.INFO, "was given back"),
    AttemptCrashed: (logging.WARNING, "ended its child process"),
    AttemptCancelled: (logging.INFO, "was cancelled"),
    AttemptRefused: (logging.WARNING, "ended too late and was refused"),
    AttemptLost: (logging.WARNING, "was lost with the session of this worker"),
}


def is_log_of_all() -> bool:
    """Whether the logger has the level INFO, so that attempts that are done have a line too."""
    return logger.isEnabledFor(logging.INFO)


def log(event: AttemptEvent) -> None:
    """Log the end of an attempt."""
    if not isinstance(event, AttemptEnded):
        return
    level, words = _WORDS[type(event)]
    if not logger.isEnabledFor(level):
        return
    error = event.error if isinstance(event, AttemptFailed | AttemptDead) else None
    took = "" if event.run_seconds is None else f" after {event.run_seconds:.3f} s"
    why = f": {event.reason}" if event.reason else ""
    then = f"; again in {event.retry_seconds:.1f} s" if isinstance(event, AttemptFailed) else ""
    who = (event.queue, event.task, event.name, event.attempt)
    report(logger, level, "%s: task %s (%s): attempt %d %s%s%s%s", *who, words, took, why, then, error=error)
