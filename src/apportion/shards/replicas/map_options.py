"""MapOptions: the options with which a process opens a map, checked before any effect."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from apportion.errors import InvalidInput, UnknownOption
from apportion.shards.replicas.level import Level

ReadFrom = Literal["nearest", "random"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """The options of one opened map; `open_map` explains them."""

    consistency: Level = "quorum"
    datacenter: str | None = None
    read_from: ReadFrom = "nearest"
    timeout_seconds: float = 1.0
    read_repair: bool = True

    def __post_init__(self) -> None:
        if self.consistency not in get_args(Level):
            raise UnknownOption("consistency", self.consistency, get_args(Level))
        if self.read_from not in get_args(ReadFrom):
            raise UnknownOption("read_from", self.read_from, get_args(ReadFrom))
        if type(self.read_repair) is not bool:
            raise InvalidInput("read_repair", self.read_repair, "True or False", "Leave it out to get True.")


def seconds_of(field: str, value: timedelta | None) -> float:
    """Return the seconds of a duration above zero; `InvalidInput` for anything else."""
    if not isinstance(value, timedelta) or value <= timedelta():
        hint = f"Write {field}=timedelta(seconds=1)."
        raise InvalidInput(field, value, "a timedelta above zero", hint)
    return value.total_seconds()
