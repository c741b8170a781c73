"""Choice of the channel between two shards in PostgreSQL, from the facts of both servers, with the reason.

A native channel needs logical replication. The source needs `wal_level = logical` and free slots, and the target needs
free workers. The role needs the right to replicate, and the target's server must reach the source. The log of keys
needs none of this.

Promises: pure. The reason names the shard, the setting and its value, or the words of the server.
Source: https://www.postgresql.org/docs/current/logical-replication-config.html
"""

from collections.abc import Iterator
from dataclasses import dataclass

from apportion.shards.channel import ChannelKind

OLDEST = 15
"""The oldest PostgreSQL that filters the rows of a publication."""

_WORKERS = 2
"""One worker applies changes, and at least one copies tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationFacts:
    """The facts of a server that decide about a native channel. The numbers of `slots` to `workers` are the free ones.

    - `slots`, `senders`: a source needs them. `origins`, `workers`: a target needs them.
    - `own`: the numbers of the same four that moves of apportion use now.
    - `copies`: the number of tables that a subscription copies at the same time.
    - `may_publish`, `may_subscribe`: the rights of the mover's role.
    - `keeps_bounded`: the log that the server keeps for a replication slot has a bound, or needs none.
    - `unfit`: tables that cannot be replicated with a filter, each with the reason.
    """

    release: int
    wal_level: str
    slots: int
    senders: int
    origins: int
    workers: int
    copies: int
    may_publish: bool
    may_subscribe: bool
    keeps_bounded: bool = True
    own: tuple[int, int, int, int] = (0, 0, 0, 0)
    unfit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelChoice:
    """The channel of a pair of shards, and the reason in words."""

    kind: ChannelKind
    reason: str


def chosen(wished: ChannelKind, obstacle: str, warning: str = "") -> ChannelChoice:
    """Return the channel for a wish. `obstacle` says why a native channel is impossible, "" if it is possible.

    The reason of a native channel includes `warning`.

    >>> chosen("auto", "wal_level of shard one is replica, not logical").kind
    'keys'
    """
    if wished == "keys":
        possible = obstacle or "a native channel is possible: --channel native"
        return ChannelChoice(kind="keys", reason=f"the log of keys was asked for; {possible}")
    if obstacle:
        return ChannelChoice(kind="keys", reason=obstacle)
    return ChannelChoice(kind="native", reason=f"logical replication is possible{warning and '; ' + warning}")


def warning_of(source: str, facts: ReplicationFacts) -> str:
    """Return a warning about the log that a native channel keeps on its source, "" if the server bounds it."""
    if facts.keeps_bounded:
        return ""
    return f"max_slot_wal_keep_size of shard {source} is -1: the log that a paused move keeps has no bound"


def obstacle_in(source: str, here: ReplicationFacts, target: str, there: ReplicationFacts, *, at_once: int = 1) -> str:
    """Return the first fact that makes a native channel impossible, "" if there is none.

    `at_once` is the number of moves that run at once. Each of them may be between these two servers.
    """
    found = [*_obstacles(source, here, target, there), *_shortages(source, here, target, there, at_once)]
    return next(iter(found), "")


def _obstacles(source: str, here: ReplicationFacts, target: str, there: ReplicationFacts) -> Iterator[str]:
    for shard, facts in ((source, here), (target, there)):
        if facts.release < OLDEST:
            yield f"shard {shard} runs PostgreSQL {facts.release}, older than {OLDEST}"
    if here.wal_level != "logical":
        yield f"wal_level of shard {source} is {here.wal_level}, not logical"
    for shard, facts in ((source, here), (target, there)):
        yield from (f"table {each} in shard {shard}" for each in facts.unfit)
    if not here.may_publish:
        yield f"the role of shard {source} may not replicate, or may not create in its database"
    if not there.may_subscribe:
        yield f"the role of shard {target} may not subscribe"
    if not here.keeps_bounded:
        yield f"max_slot_wal_keep_size of shard {source} is -1: see --allow-unbounded-wal"


def _shortages(
    source: str, here: ReplicationFacts, target: str, there: ReplicationFacts, at_once: int
) -> Iterator[str]:
    """Yield the settings that leave too little for `at_once` moves.

    With several moves at once, the numbers in `own` count as free, because some of these moves may be under way.
    """
    needed = 1 + there.copies
    for shard, setting, left, own, least in (
        (source, "max_replication_slots", here.slots, here.own[0], needed),
        (source, "max_wal_senders", here.senders, here.own[1], needed),
        (target, "max_replication_slots", there.origins, there.own[2], needed),
        (target, "max_logical_replication_workers", there.workers, there.own[3], _WORKERS),
    ):
        room, all_of_them = max(0, left) + (own if at_once > 1 else 0), least * at_once
        if room < all_of_them:
            moves = "a move needs" if at_once == 1 else f"{at_once} moves at once need"
            yield f"{setting} of shard {shard} leaves {room}, and {moves} {all_of_them}"
