"""Native twin: the one place that loads it, or tells why the Python reference answers instead.

    table = native.extension.Table(...) if native.IN_USE else ReferenceTable(...)

Promises: the loaded twin was built for this version of the package. Loading it takes less than a millisecond. Where the
twin is absent, the log has one warning per process, because the reference is slow.
Refuses: to fail where the twin is absent. The answers are the same; `apportion doctor` shows which of the two gives
them. `APPORTION_NATIVE=0` in the environment selects the reference, without a warning.
"""

from enum import Enum
from os import environ
from typing import TYPE_CHECKING

from apportion import __version__
from apportion.errors import UnknownOption

if TYPE_CHECKING:
    from types import ModuleType

    # The types are in `_native.pyi`. At run time `extension` is None unless `IN_USE`.
    from apportion import _native as extension

__all__ = ["DETAIL", "IN_USE", "STATE", "SWITCH", "TwinState", "extension"]

SWITCH = "APPORTION_NATIVE"


class TwinState(Enum):
    """Whether the native twin is in use, and if not, why."""

    IN_USE = "in use"
    SWITCHED_OFF = "switched off"
    ABSENT = "not built"
    UNLOADABLE = "not loadable"
    OTHER_VERSION = "of another version"


def _found() -> "tuple[TwinState, str, ModuleType | None]":
    """Return the state of the twin, a detail for the reader, and the twin itself if it is to be used."""
    wanted = environ.get(SWITCH) or "1"
    if wanted not in {"0", "1"}:
        raise UnknownOption(SWITCH, wanted, ("0", "1"))
    if wanted == "0":
        return TwinState.SWITCHED_OFF, f"{SWITCH}=0", None
    try:
        import apportion._native as twin  # noqa: PLC0415 - not loaded when it is switched off
    except ModuleNotFoundError:
        return TwinState.ABSENT, "the native twin was not built", None
    except ImportError as error:
        return TwinState.UNLOADABLE, f"the native twin cannot be loaded: {error}", None
    if __version__ != twin.VERSION:
        return TwinState.OTHER_VERSION, f"the native twin is of version {twin.VERSION}", None
    return TwinState.IN_USE, f"{twin.PROFILE} profile", twin


STATE, DETAIL, _twin = _found()
IN_USE = STATE is TwinState.IN_USE
if STATE not in {TwinState.IN_USE, TwinState.SWITCHED_OFF}:
    import logging  # not loaded where the twin answers

    logging.getLogger(__name__).warning(
        "%s. The reference in Python answers, some 10 to 80 times as slowly. Install cargo, then apportion from its "
        "sources: pip install --no-binary apportion apportion; "
        "or accept the reference with %s=0.",
        DETAIL,
        SWITCH,
    )
if not TYPE_CHECKING:
    extension = _twin
