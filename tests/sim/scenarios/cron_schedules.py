"""The schedules of the cron scenario: rules around changes of the clocks, and nodes with zone data of their own."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apportion.sim.world.process import running_name
from apportion.work.call import Call
from apportion.work.cron import acts, calendar, declaration, firing_events, scheduler
from apportion.work.cron.declaration import Policies
from apportion.work.cron.zone_data import zone_data_version
from tests.sim.scenarios.task_functions import long, quick, slow

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")
FOREIGN = "n3"  # a node with zone data of its own: no clock changes, and one zone is absent
_FOREIGN_ZONES = {"America/New_York": "America/Panama", "Europe/Berlin": "Africa/Algiers"}
# Days on which the clocks of each zone go forward, and back; the later one is far from the earlier one.
_CHANGES = {
    "America/New_York": (datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)),
    "Europe/Berlin": (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)),
    "Australia/Lord_Howe": (datetime(2026, 10, 3, 12, tzinfo=UTC), datetime(2027, 4, 3, 12, tzinfo=UTC)),
}
_RULES = (
    *("30 2 * * *", "15,45 2 * * *", "*/30 2 * * *", "30 */2 * * *", "30 1 * * *", "15,45 1 * * *", "*/30 1 * * *"),
    *("0 */3 * * *", "0 9 * * *", "10 2 * * 0", "45 0-4 * * *", "5 1,2,3 * * sun,mon"),
)
_STEPS = (600, 1_800, 3_600, 3 * 3_600, 12 * 3_600, 26 * 3_600)  # seconds


def times(draw: random.Random) -> Iterator[datetime]:
    """Yield times that pass a change of the clocks forward, and one back."""
    for day in _CHANGES[draw.choice(ZONES)]:
        now, end = day - timedelta(hours=draw.uniform(2, 20)), day + timedelta(hours=draw.uniform(20, 40))
        while now < end:
            yield now
            now += timedelta(seconds=draw.choice(_STEPS) * draw.uniform(0.5, 1.0))


def policies(draw: random.Random) -> Policies:
    """Draw the policies of a schedule."""
    return {
        "zone": draw.choice(ZONES),
        "missed": draw.choice(["skip", "last", "all"]),
        "overlap": draw.choice(["allow", "skip", "queue-one", "cancel-old"]),
        "gap": draw.choice(["run-after", "skip"]),
        "fold": draw.choice(["first", "last", "both"]),
        "jitter": timedelta(seconds=draw.choice([0, 0, 90])),
    }


def rule(draw: random.Random) -> dict[str, Any]:
    """Draw a rule of cron, now and then a period."""
    if draw.random() < 0.15:
        return {"every": timedelta(minutes=draw.choice([20, 90]))}
    return {"cron": draw.choice(_RULES)}


def call(draw: random.Random) -> Call:
    """Draw the call of a schedule."""
    return draw.choice([quick, quick, slow, long]).call(draw.randrange(100))


@contextmanager
def foreign_zone_data() -> Iterator[None]:
    """Within the block, the foreign node of a world sees zone data of its own."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(calendar, "ZoneInfo", _zone))
        for module in (acts, declaration, firing_events, scheduler):
            stack.enter_context(mock.patch.object(module, "zone_data_version", _version))
        yield


def _zone(name: str) -> ZoneInfo:
    if running_name() != FOREIGN:
        return ZoneInfo(name)
    if name not in _FOREIGN_ZONES:
        raise ZoneInfoNotFoundError(name)
    return ZoneInfo(_FOREIGN_ZONES[name])


def _version() -> str:
    return "1999z" if running_name() == FOREIGN else zone_data_version()
