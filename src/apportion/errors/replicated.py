"""Replicated: errors of maps with several copies of each entry."""

from apportion.errors.root import Unsafe
from apportion.errors.shown import shown

_PUBLIC = "apportion.errors"


class ClockAstray(Unsafe):
    """A clock, or a version that a clock has made, is too far from the clocks of the other machines."""

    __module__ = _PUBLIC

    @classmethod
    def of_process(cls, seconds: float, most_seconds: float) -> "ClockAstray":
        """Return the error for a process with a clock away from the median of the nodes' clocks."""
        problem = (
            f"the clock of this process is {seconds:+.0f} s from the nodes' clocks, expected at most {most_seconds:g}."
        )
        return cls(problem, "Nothing was written. Set the clock, for example with chrony, and open the map again.")

    @classmethod
    def of_key(cls, key: bytes, version: str) -> "ClockAstray":
        """Return the error for a key with a version more than a day ahead of the clock of this process."""
        problem = f"key {shown(key.decode(errors='replace'))} has the version {version}, more than a day ahead."
        return cls(problem, "The put may be seen on some nodes. Check the clocks of all writers, and this version.")
