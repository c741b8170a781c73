"""Limits of a move: the log that its source may keep, and the attempts to switch that one mover makes.

    log        it grows to the limit: the move is aborted, so that the disk of the source does not fill
    attempts   all of them have failed: the move rests, and the next call goes on

Promises: each end has a reason in words, with the next step. Once the source keeps a log, it is asked for its size once
per second, also while the target does not answer, and once more before a final error is raised. While a fence stands,
it is never asked.
"""

from dataclasses import dataclass

from apportion.runtime.clock import Clock
from apportion.shards.channel import LogSize
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.fence_time import FENCE_SECONDS
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites
from apportion.shards.plan.size_text import size_text

_EVERY_SECONDS = 1.0
_NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimits:
    """The limits of the moves of one call.

    - `wal_bytes`: the most bytes of the log that a source keeps for a move.
    - `attempts`: the most attempts to switch a move.
    """

    wal_bytes: float = 10e9
    attempts: int = 20


LIMITS = MoveLimits()
"""The limits by default."""


class LimitWatch:
    """Watches one move under the limits of one mover."""

    def __init__(self, limits: MoveLimits, sites: ShardSites, clock: Clock) -> None:
        self._limits, self._sites, self._clock = limits, sites, clock
        self._asked_at = _NEVER
        self._failed, self._blocker = 0, ""

    def note_failure(self, blocker: str = "") -> None:
        """Count an attempt that has failed. `blocker` is a sentence about the cause, "" for late changes."""
        self._failed, self._blocker = self._failed + 1, blocker

    def rest_reason(self, group: MoveGroup) -> str:
        """Return the reason why a move rests after its attempts, "" if it may try again."""
        if self._failed < self._limits.attempts:
            return ""
        why = self._blocker or f"changes did not reach shard {group.target} within {FENCE_SECONDS:g} s"
        count = f"{self._failed} attempt{'s' if self._failed > 1 else ''} to switch"
        hint = "End that cause, or wait for a quieter hour. Then run the same command, which goes on."
        return f"move {group.move} rests after {count}: {why}. Its slots stay on shard {group.source}. {hint}"

    async def log_reason(self, entry: MoveEntry, *, is_urgent: bool = False) -> str:
        """Return the reason why the log of a move ends it, "" if it may go on. Errors are those of the source.

        An urgent call asks the source even if the last answer is less than a second old.
        """
        now = self._clock.elapsed()
        if entry.record.state == "fenced" or (not is_urgent and now - self._asked_at < _EVERY_SECONDS):
            return ""
        log = await self._sites.kept_log(entry.group)
        size = None if log is None else await log.size()
        if size is None:  # Note no time, so that the next call asks again: a quick move would end within a second.
            return ""
        self._asked_at = now
        return self._of_log(entry.group, size)

    def _of_log(self, group: MoveGroup, size: LogSize) -> str:
        move, source, target = group.move, f"shard {group.source}", f"shard {group.target}"
        if size.is_lost:
            return (
                f"move {move} was aborted: the server of {source} has deleted WAL that {target} still needed. "
                f"Raise max_slot_wal_keep_size of {source}, or apply the plan with --channel keys."
            )
        if size.bytes > self._limits.wal_bytes:
            most = size_text(self._limits.wal_bytes)
            return (
                f"move {move} was aborted: {source} kept {size_text(size.bytes)} of WAL for it, more than {most}. "
                f"Look why {target} is slow or away. Then apply the plan again, with a larger --max-wal or with "
                "--channel keys."
            )
        return ""
