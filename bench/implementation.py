"""Which implementation a run measures: the native twin or the reference; and the refusal of what would mislead.

Promises: an absent, unusable or unoptimised twin is refused with what to do next, unless the reference alone was asked
for; after `choose` the twin is in use or it is not, as asked, in this process and in every process that it starts.
"""

import os
from importlib import import_module
from types import ModuleType

SWITCH = "APPORTION_NATIVE"
OPTIMISED = "release"


class Refused(Exception):
    """What is installed is not what a figure is about."""


def choose(*, reference: bool) -> str:
    """Select the twin, or the reference if that was asked for; return which it is, in words. Raises `Refused`."""
    if reference:
        os.environ[SWITCH] = "0"
    native = _native()
    fault = refusal(in_use=native.IN_USE, detail=native.DETAIL, profile=profile(), reference=reference)
    if fault:
        raise Refused(fault)
    return f"{'native' if native.IN_USE else 'reference'} ({native.DETAIL})"


def refusal(*, in_use: bool, detail: str, profile: str | None, reference: bool) -> str | None:
    """Return the reason why these figures would mislead, with a remedy; None if they would not."""
    if reference:
        # The switch is read once, when a placement is first loaded.
        return "the native twin was loaded before --reference was read; start again" if in_use else None
    if not in_use:
        return f"no native twin to measure: {detail}. Build it (docs/native.md), or pass --reference."
    if profile != OPTIMISED:
        return f"the native twin has the {profile} profile, which is slow. Install again, or pass --reference."
    return None


def is_native() -> bool:
    """Return whether the twin answers in this run."""
    return bool(_native().IN_USE)


def profile() -> str | None:
    """Return how the twin was compiled; None where the reference answers."""
    native = _native()
    return native.extension.PROFILE if native.IN_USE else None


def _native() -> ModuleType:
    """Return the module that chooses; not imported above, because it reads the switch when it is."""
    return import_module("apportion.native")
