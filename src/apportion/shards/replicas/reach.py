"""Reach: whether it is worth sending to a node, as a pure function of its last answers.

Three requests in a row without an answer cut a node off: requests to it fail at once. After a pause, one request probes
it; an answer ends the cut. So a dead node costs its callers three waits, and not one for each call.

Refuses: to declare a node dead. A node that is cut off still belongs to its lists.
"""

MOST_SILENCES = 3
PROBE_SECONDS = 1.0
_SMOOTHING = 0.2


class Reach:
    """The recent answers of one node. Times are elapsed seconds.

    >>> reach = Reach()
    >>> for _ in range(3):
    ...     reach.gave_no_answer(now=10.0)
    >>> reach.may_send(now=10.5), reach.may_send(now=11.5), reach.may_send(now=11.6)
    (False, True, False)
    >>> reach.answered(0.002)
    >>> reach.may_send(now=11.7)
    True
    """

    def __init__(self) -> None:
        self._silences = 0
        self._probe_at = 0.0
        self._seconds = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether the node gave no answer three times in a row."""
        return self._silences >= MOST_SILENCES

    @property
    def seconds(self) -> float:
        """The usual time of an answer, smoothed; 0 before the first."""
        return self._seconds

    def may_send(self, now: float) -> bool:
        """Whether a request should be sent now. For a node that is cut off, True asks for the probe."""
        if not self.is_cut:
            return True
        if now < self._probe_at:
            return False
        self._probe_at = now + PROBE_SECONDS
        return True

    def answered(self, seconds: float) -> None:
        """Note an answer, and the time that it took."""
        self._silences = 0
        self._seconds += (seconds - self._seconds) * (_SMOOTHING if self._seconds else 1.0)

    def gave_no_answer(self, now: float) -> None:
        """Note a request without an answer."""
        self._silences += 1
        if self._silences == MOST_SILENCES:
            self._probe_at = now + PROBE_SECONDS
