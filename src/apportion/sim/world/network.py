"""The network: the time of a message from one process to another, if it arrives at all.

A link has the names of its sender and its receiver. One of the two may be the store, the tasks of that store, or the
store of the groups. A partition drops messages in both directions or in one. A clogged link keeps messages until it is
free again. Everything else is drawn anew for each message.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from random import Random

from apportion.errors import UnknownOption

STORE, TASKS, GROUP = "store", "tasks", "group"
_STORES = (STORE, TASKS, GROUP)
Inject = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How a network behaves: the seconds that a message takes, and the ratios of affected messages.

    `late` is the ratio of messages that take up to `late_seconds`, which is longer than a caller waits. A message
    with a shorter delay overtakes others. `reordered` is the ratio of messages with a much longer delay.
    """

    least_seconds: float = 0.0005
    most_seconds: float = 0.005
    lost: float = 0.0
    duplicated: float = 0.0
    reordered: float = 0.0
    late: float = 0.0
    late_seconds: float = 4.0


FAIR = Weather()


class Network:
    """Links among processes and `places`; some places are `databases`. `inject` is called before each fault."""

    def __init__(
        self, draw: Random, *, now: Callable[[], float], inject: Inject, processes: Callable[[], Collection[str]]
    ) -> None:
        self.weather = FAIR
        self.places: set[str] = {STORE}
        self.databases: set[str] = {TASKS}
        self._processes = processes
        self._draw = draw
        self._now = now
        self._inject = inject
        self._cut_until: dict[tuple[str, str], float] = {}
        self._clogged_until: dict[tuple[str, str], float] = {}

    def partition(self, source: str, target: str, seconds: float, *, one_way: bool = False) -> None:
        """Drop messages from `source` to `target`, and back unless it is `one_way`, for some time."""
        self._must_know(source, target)
        until = self._now() + seconds
        for link in [(source, target)] if one_way else [(source, target), (target, source)]:
            self._cut_until[link] = max(until, self._cut_until.get(link, 0.0))

    def clog(self, source: str, target: str, seconds: float) -> None:
        """Keep messages from `source` to `target`, and deliver them when the time is over."""
        self._must_know(source, target)
        self._clogged_until[source, target] = self._now() + seconds

    def heal(self, links: Iterable[tuple[str, str]] | None = None) -> None:
        """Mend some links, or all."""
        for link in [*self._cut_until, *self._clogged_until] if links is None else links:
            self._cut_until.pop(link, None)
            self._clogged_until.pop(link, None)

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether no message gets from `source` to `target` now."""
        return self._cut_until.get((source, target), 0.0) > self._now()

    def journeys(self, source: str, target: str) -> tuple[float, ...]:
        """Return the delay of each copy of a message sent now: none when it is lost, two when it is duplicated."""
        weather, link = self.weather, (source, target)
        if self._cut_until and self.is_cut(source, target):
            return ()
        if self._happens(weather.lost, "lost", link):
            return ()
        delay = self._draw.uniform(weather.least_seconds, weather.most_seconds)
        if self._happens(weather.late, "late", link):
            delay = self._draw.uniform(weather.most_seconds, weather.late_seconds)
        elif self._happens(weather.reordered, "reordered", link):
            delay += self._draw.uniform(0, 20 * weather.most_seconds)
        if self._clogged_until:
            delay += max(0.0, self._clogged_until.get(link, 0.0) - self._now())
        # No connection to a database repeats a request, and no answer is sent twice.
        is_certain = source in _STORES or source in self.databases or target in self.databases
        if not is_certain and self._happens(weather.duplicated, "duplicated", link):
            return (delay, delay + self._draw.uniform(0, weather.most_seconds))
        return (delay,)

    def _must_know(self, *names: str) -> None:
        """Refuse a link that no message will ever take: a fault on it would test nothing."""
        known = self.places.union(self._processes())
        for name in names:
            if name not in known:
                raise UnknownOption("process", name, known)

    def _happens(self, ratio: float, kind: str, link: tuple[str, str]) -> bool:
        if ratio <= 0 or self._draw.random() >= ratio:
            return False
        what = "request" if link[1] in _STORES else "reply" if link[0] in _STORES else "message"
        return self._inject(f"{what} {kind}", ">".join(link))
