"""Accepted shards: those that have accepted a mover once. A later denial by one of them may pass.

A rotated password or a revoked right is given back after a moment, and the move goes on by itself. A shard that has
never accepted the mover has a wrong URL or a role without rights, and no wait mends these.
"""

from apportion.errors import ApportionError, StoreDenied, StoreUnavailable
from apportion.shards.move_group import MoveGroup


class AcceptedShards:
    """The shards that have accepted one mover."""

    def __init__(self) -> None:
        self._shards: set[str] = set()

    def add(self, group: MoveGroup) -> None:
        """Note that both shards of a group have accepted the mover."""
        self._shards |= {group.source, group.target}

    def may_pass(self, error: ApportionError, group: MoveGroup) -> bool:
        """Whether a wait may mend an error that came up in the move of a group."""
        is_known = {group.source, group.target} <= self._shards
        return isinstance(error, StoreUnavailable) or (is_known and isinstance(error, StoreDenied))
