"""The time zones of this machine, and the version of their data, such as 2026a. `ScheduleDisagreed` shows it."""

import zoneinfo
from functools import cache
from importlib import import_module
from pathlib import Path
from zoneinfo import ZoneInfo

from apportion.errors import InvalidInput

_FIRST_WORDS = "# version "


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its name; `InvalidInput` for a zone that this machine does not have."""
    try:
        return _zone(name)
    except (KeyError, ValueError, TypeError, OSError) as error:
        hint = "Write a name such as 'Europe/Berlin'; for the newest rules: pip install tzdata."
        raise InvalidInput("zone", name, "the name of a time zone that this machine has", hint) from error


@cache
def _zone(name: str) -> ZoneInfo:
    if name == "localtime":
        raise ValueError("this name is of another zone on each machine")
    return ZoneInfo(name)


@cache
def zone_data_version() -> str:
    """Return the version of the zone data that `zoneinfo` reads here; "unknown" if no source has it.

    It is read once, as each zone is: an upgrade of the data counts from the next start of the process.
    """
    for folder in zoneinfo.TZPATH:
        try:
            with (Path(folder) / "tzdata.zi").open(errors="replace") as lines:
                first = lines.readline()
        except OSError:
            continue
        if first.startswith(_FIRST_WORDS):
            return first.removeprefix(_FIRST_WORDS).strip()
    try:
        return str(import_module("tzdata").IANA_VERSION)
    except ImportError:
        return "unknown"
