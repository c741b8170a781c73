"""Options of `apply`, each checked before any effect: the channel of new moves, the rate of the copy, the limits."""

from math import inf

from apportion.errors import InvalidInput, UnknownOption
from apportion.shards.channel import CHANNEL_KINDS, ChannelWish
from apportion.shards.mover.limits import MoveLimits
from apportion.shards.plan import ShardPlan

MOST_AT_ONCE = 64
"""The most groups that one call moves at once."""


def channel_wish(kind: str, *, allows_unbounded_wal: bool, bytes_per_second: float | None, at_once: int) -> ChannelWish:
    """Return the wish for a channel. Only a log of keys may have a rate, and only replication keeps WAL."""
    if kind not in CHANNEL_KINDS:
        raise UnknownOption("channel", kind, CHANNEL_KINDS)
    if bytes_per_second is not None:
        _check_amount("bytes_per_second", bytes_per_second, "5_000_000 is 5 MB/s.")
    if bytes_per_second is not None and kind != "keys":
        hint = "The servers copy rows by themselves there. Leave the limit out, or the channel."
        raise InvalidInput("bytes_per_second", bytes_per_second, 'None beside a channel other than "keys"', hint)
    if allows_unbounded_wal and kind == "keys":
        hint = 'A log of keys keeps no WAL. Leave the option out, or ask for the channel "native" or "auto".'
        raise InvalidInput("allows_unbounded_wal", allows_unbounded_wal, 'False beside the channel "keys"', hint)
    return ChannelWish(kind=kind, allows_unbounded_wal=allows_unbounded_wal, at_once=at_once)


def move_limits(*, most_wal_bytes: float, attempts: int) -> MoveLimits:
    """Return the checked limits of moves."""
    _check_amount("most_wal_bytes", most_wal_bytes, "10_000_000_000 is 10 GB.")
    if type(attempts) is not int or attempts < 1:
        raise InvalidInput("attempts", attempts, "a whole number of at least 1", "The default is 20.")
    return MoveLimits(wal_bytes=most_wal_bytes, attempts=attempts)


def moves_at_once(parallel: int, plan: ShardPlan | None) -> int:
    """Return the number of moves of a plan that run at once. `InvalidInput` for anything but a plan."""
    if plan is not None and not isinstance(plan, ShardPlan):
        hint = (
            "Make one: await admin.plan(URL, SET, ...). A saved plan is read by decode_shard_plan(file.read_bytes())."
        )
        raise InvalidInput("plan", plan, "a ShardPlan, or None", hint)
    if type(parallel) is not int or not 1 <= parallel <= MOST_AT_ONCE:
        hint = "Each one has connections of its own. The default is 1."
        raise InvalidInput("parallel", parallel, f"a whole number of 1 to {MOST_AT_ONCE}", hint)
    return parallel if plan is None else min(parallel, max(1, len(plan.moves)))


def _check_amount(name: str, value: float, hint: str) -> None:
    if type(value) not in (int, float) or not 0 < value < inf:
        raise InvalidInput(name, value, "a number above 0", hint)
