"""Worker pace: how many tasks a worker ends per second, measured over short spans."""

_SPAN_SECONDS = 0.1


class Pace:
    """The pace of one worker.

    >>> pace = Pace(now=0.0)
    >>> pace.count(20, now=0.05)
    >>> pace.count(30, now=0.1)
    >>> pace.per_second
    500.0
    """

    def __init__(self, now: float) -> None:
        self.per_second: float = 0.0
        self._counted, self._since = 0, now

    def count(self, ended: int, now: float) -> None:
        """Count tasks that have ended; the pace is that of the last whole span."""
        self._counted += ended
        if now - self._since >= _SPAN_SECONDS:
            self.per_second = self._counted / (now - self._since)
            self._counted, self._since = 0, now
