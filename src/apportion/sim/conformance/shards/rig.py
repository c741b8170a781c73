"""Rig: a kind of database as the suites of shards handle it: two shards of a set, and the rows of their application.

The application has one table. Its rows have a slot, a number as their key, and a text. Shard `one` owns the slots
0 .. 7, shard `two` the slots 8 .. 15. Each case gets a pair of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from apportion.shards.channel import Channel
from apportion.shards.move_group import MoveGroup
from apportion.shards.shard import Shard

OWNED: Mapping[str, range] = {"one": range(8), "two": range(8, 16)}


class ShardPair(ABC):
    """Two shards, and their application."""

    @abstractmethod
    async def shard(self, shard_id: str) -> Shard:
        """Return a new handle of a shard, as another process would have it."""

    @abstractmethod
    async def channel(self, group: MoveGroup) -> Channel:
        """Return a new handle of the channel of a group."""

    @abstractmethod
    async def write(self, shard_id: str, slot: int, rows: Mapping[int, str | None]) -> bool:
        """Write rows in one transaction of the application that names no version of the table; None deletes a row.

        Return whether the shard accepted it.
        """

    @abstractmethod
    async def plant(self, shard_id: str, slot: int, rows: Mapping[int, str | None]) -> None:
        """Write rows that the shard does not accept, as a program with masked triggers does."""

    @abstractmethod
    async def read(self, shard_id: str, slot: int) -> Mapping[int, str]:
        """Return the rows of a slot, also where another shard owns it."""

    @abstractmethod
    async def close(self) -> None:
        """Close all handles, and delete the databases."""


class ShardRig(Protocol):
    """The maker of pairs."""

    name: str

    async def pair(self) -> ShardPair:
        """Return a new pair without rows."""
