"""OpenStack Swift's ring builder: 2**power partitions with replicas over devices in zones, rebalanced by greedy rounds.

Its own limits on moves are lifted (`pretend_min_part_hours_passed`), so that one rebalance does all that it would do.
"""

from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

from bench.contender import missing

ABSENT = missing("swift")
DEVICES, ZONES, ADDED, POWER, REPLICAS = 100, 5, 5, 16, 3
SEED = 1


def described() -> str:
    """Return the version that is measured."""
    try:
        return f"swift {version('swift')}"
    except PackageNotFoundError:
        return ABSENT


class SwiftRing:
    """A builder with its devices, before or after a rebalance."""

    def __init__(self) -> None:
        from swift.common.ring import RingBuilder  # noqa: PLC0415 - perhaps not installed

        self._builder = RingBuilder(POWER, REPLICAS, 1)
        self.add(range(DEVICES))

    def add(self, numbers: range) -> None:
        """Add devices of weight 100, each in the next zone."""
        for number in numbers:
            place = SimpleNamespace(ip=f"10.0.0.{number}", zone=number % ZONES)
            self._builder.add_dev(
                {
                    "id": number,
                    "region": 0,
                    "zone": place.zone,
                    "ip": place.ip,
                    "port": 6200,
                    "device": "d",
                    "weight": 100,
                }
            )
        self._builder.pretend_min_part_hours_passed()

    def rebalance(self) -> None:
        """Assign what is not assigned, and even out."""
        self._builder.rebalance(seed=SEED)

    def rows(self) -> list[tuple[int, ...]]:
        """Return the devices of each partition."""
        return list(zip(*self._builder._replica2part2dev, strict=True))
