"""The version of the zone data of this machine, such as 2026a, so that nodes that disagree can say so."""

import zoneinfo
from functools import cache
from importlib import import_module
from pathlib import Path

_FIRST_WORDS = "# version "


@cache
def zone_data_version() -> str:
    """Return the version of the zone data that `zoneinfo` reads here; "unknown" if nothing says it."""
    for folder in zoneinfo.TZPATH:
        try:
            with (Path(folder) / "tzdata.zi").open() as lines:
                first = lines.readline()
        except OSError:
            continue
        if first.startswith(_FIRST_WORDS):
            return first.removeprefix(_FIRST_WORDS).strip()
    try:
        return str(import_module("tzdata").IANA_VERSION)
    except ImportError:
        return "unknown"
