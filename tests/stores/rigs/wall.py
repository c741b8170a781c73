"""The wall clock of this process, stepped: for stores whose only server is the process that uses them."""

import time

_TIME, _TIME_NS = time.time, time.time_ns


def step(seconds):
    """Let `time.time` say so many seconds more; 0 sets it right again."""
    time.time = (lambda: _TIME() + seconds) if seconds else _TIME
    time.time_ns = (lambda: _TIME_NS() + int(seconds * 1e9)) if seconds else _TIME_NS
