"""Lane statistics: the lanes of one queue as the workers in this process see them, for metrics."""

from dataclasses import dataclass, field

from apportion.errors.brief import brief
from apportion.groups.driver import Driver
from apportion.groups.statistics import Durations


@brief
@dataclass(slots=True)
class LaneStatistics:
    """The counts of lanes since this process began. `fenced`: lanes that the store refused because of a later owner."""

    fenced: int = 0
    _drivers: list[Driver] = field(default_factory=list)
    _ended: Durations = field(default_factory=Durations)

    def begin(self, driver: Driver) -> None:
        """Count a member that has joined."""
        self._drivers.append(driver)

    def end(self, driver: Driver) -> None:
        """Keep the counts of a member that has left."""
        self._drivers.remove(driver)
        self._add(self._ended, driver)

    @property
    def without_owner(self) -> int | None:
        """The lanes without a living owner, as one worker of this process sees them; None without a worker."""
        return self._drivers[-1].sight().orphaned if self._drivers else None

    @property
    def handovers(self) -> Durations:
        """The waits of lanes that left this process: from the loss of a lane to its next owner."""
        total = Durations(count=self._ended.count, seconds=self._ended.seconds)
        for driver in tuple(self._drivers):
            self._add(total, driver)
        return total

    @staticmethod
    def _add(total: Durations, driver: Driver) -> None:
        ended = driver.statistics.handovers
        total.count += ended.count
        total.seconds += ended.seconds
