"""Lifecycle: the step of each shard between its addition and its removal, and the next command to give.

    added → planned → moving → published → soaking → clean           a shard that gets slots
    draining → moving → published → soaking → removable              a shard that gives them all away

Promises: pure; the answer depends on the status, and on `now` and `soak_seconds` for a soak. A step names the command
that ends it. A shard at rest is `clean`.
Refuses: to know a plan that nobody has applied yet, because a plan is a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from apportion.shards.admin.status import MoveStatus, SetStatus, ShardStatus
from apportion.shards.reshard import BEFORE_SWITCH

Step: TypeAlias = Literal["added", "planned", "moving", "published", "soaking", "clean", "draining", "removable"]

_NOT_COPIED = frozenset({"planned", "prepared"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStep:
    """The step of one shard, its reason in words, and the next command, "" for a shard at rest."""

    shard: str
    step: Step
    why: str
    command: str = ""


def lifecycle(found: SetStatus, *, now: float, soak_seconds: float) -> tuple[ShardStep, ...]:
    """Return the step of each shard, in the order of the shards. O(shards × moves).

    `now` is the wall clock in seconds. Old rows stay for `soak_seconds` after a move.
    """
    commands = _Commands(found.name)
    return tuple(_step(each, _moves_of(each, found.moves), commands, now - soak_seconds) for each in found.shards)


@dataclass(frozen=True, slots=True)
class _Commands:
    """The commands of a set."""

    name: str

    def __call__(self, act: str, *words: str) -> str:
        return " ".join(("apportion shards", act, "URL", self.name, *words))


def _moves_of(shard: ShardStatus, moves: Sequence[MoveStatus]) -> Sequence[MoveStatus]:
    return [move for move in moves if shard.id in (move.source, move.target)]


def _step(shard: ShardStatus, moves: Sequence[MoveStatus], commands: _Commands, soaked: float) -> ShardStep:
    back = [move for move in moves if move.state == "aborted" or (_is_open(move) and move.wish == "abort")]
    if back:
        return _of(shard, "moving", f"{_count(len(back), 'move')} to take back", commands("abort"))
    if any(map(_is_open, moves)):
        return _under_way(shard, [move for move in moves if _is_open(move)], moves, commands)
    if any(move.state == "switched" for move in moves):
        return _of(shard, "published", "the new owner has the slots, and the move is not over", commands("apply"))
    return _at_rest(shard, moves, commands, soaked)


def _at_rest(shard: ShardStatus, moves: Sequence[MoveStatus], commands: _Commands, soaked: float) -> ShardStep:
    """Return the step of a shard with moves that are complete, or without any."""
    if shard.weight == 0 and shard.slots and all(move.source == shard.id for move in moves):
        return _of(shard, "draining", f"weight 0, {_count(shard.slots, 'slot')} left", commands("drain", shard.id))
    if moves:
        return _soaking(shard, moves, commands, soaked)
    if shard.slots == 0:
        return _empty(shard, commands)
    return _of(shard, "clean", f"{_count(shard.slots, 'slot')}, and no move")


def _is_open(move: MoveStatus) -> bool:
    return move.state in BEFORE_SWITCH


def _under_way(
    shard: ShardStatus, due: Sequence[MoveStatus], moves: Sequence[MoveStatus], commands: _Commands
) -> ShardStep:
    is_fresh = all(move.state in _NOT_COPIED for move in moves)
    is_leaving = shard.weight == 0 and all(move.source == shard.id for move in due)
    step: Step = "draining" if is_leaving else "planned" if is_fresh else "moving"
    paused = sum(move.wish == "pause" for move in due)
    states = ", ".join(sorted({move.state for move in due}))
    why = f"{_count(len(due), 'move')} before the switch ({states}){f', {paused} paused' if paused else ''}"
    return _of(shard, step, why, commands("apply"))


def _soaking(shard: ShardStatus, moves: Sequence[MoveStatus], commands: _Commands, soaked: float) -> ShardStep:
    left = max(move.since for move in moves) - soaked
    lasts = f"and may be deleted in {left:.0f} s" if left > 0 else "and may be deleted"
    sources = ", ".join(sorted({move.source for move in moves}))
    return _of(
        shard, "soaking", f"old rows of {_count(len(moves), 'move')} stay on {sources}, {lasts}", commands("clean")
    )


def _empty(shard: ShardStatus, commands: _Commands) -> ShardStep:
    """Return the step of a shard without slots and moves."""
    if shard.weight:
        why = f"weight {shard.weight:g}, and no slot yet"
        return _of(shard, "planned", why, commands("plan", "-o plan.json"))
    if not shard.has_owned:
        weighed = commands("plan", f"--weight {shard.id}=1", "-o plan.json")
        return _of(shard, "added", "weight 0, and no slot yet", weighed)
    if shard.rows:
        why = f"weight 0, no slot, and {_count(shard.rows, 'row')} of no move"
        return _of(shard, "draining", why, commands("verify", "--models MODULE:NAME"))
    return _of(shard, "removable", "weight 0, no slot, and no row", commands("remove", shard.id))


def _of(shard: ShardStatus, step: Step, why: str, command: str = "") -> ShardStep:
    return ShardStep(shard=shard.id, step=step, why=why, command=command)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
