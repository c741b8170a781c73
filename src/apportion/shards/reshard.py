"""Reshard: the machine that moves a group of slots from one shard to another while programs write to them.

The mover reads the record, the table and both shards, asks for the next act, does this one act, and reads again. So
after a kill, the next mover goes on from the state that it finds. If a reply was lost, the next reading shows whether
the act was done.

    planned -> prepared -> copying -> catching-up -> verified -> fenced -> switched -> complete -> cleaned
                                           ^                        |
                                           +------- retreat --------+        before switched: aborted

A reversible move can go back until its old rows are deleted. Its target logs the writes from the fence on. `reverse`
swaps source and target, and the record is `planned` again. Then only logged rows are copied.

Promises: the record decides. The source is opened again only after the record says that the attempt is over. The target
is opened only by the switch: one commit publishes the table and makes the record `switched`.
Refuses: to guess. An act compares the record, or the state of the rows that it changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from apportion.shards.slot_rows import SlotRow
from apportion.tables.layout import Version

MoveState: TypeAlias = Literal[
    "planned", "prepared", "copying", "catching-up", "verified", "fenced", "switched", "complete", "cleaned", "aborted"
]
Label: TypeAlias = Literal[
    "record", "prepare", "capture", "chunk", "apply-log", "verify", "fence", "unfence", "announce", "withdraw",
    "switch", "settle-source", "settle-target", "clean-batch", "uncapture", "drop", "release",
    "capture-back", "forgo", "uncapture-back", "clean-back",
]  # fmt: skip
Way: TypeAlias = Literal["one-way", "reversible", "back"]
"""`reversible` until `clean` begins. `back` is the way of a move that was reversed; it cannot be reversed again."""

Wish: TypeAlias = Literal["go", "pause", "abort"]
"""`pause` ends a fence that stands, or finishes a switch that was made. Then the move rests."""

BEFORE_SWITCH = frozenset({"planned", "prepared", "copying", "catching-up", "verified", "fenced"})
WITHOUT_TARGET = frozenset({"unfence", "settle-source"})
"""The acts that need no reply of the target. They let writers go on."""

WITH_TARGET = frozenset({"apply-log", "verify", "announce", "withdraw"})
"""The acts that need a reply of the target while a fence may stand."""

CLEANING = frozenset({"forgo", "clean-batch"})
"""The acts that begin to delete the old rows. They wait for `clean`."""

_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 0.5, 4.0

WHILE_PAUSED = WITHOUT_TARGET | {"settle-target", "withdraw"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRecord:
    """The record of a move in the control store. `attempt` grows by one with each retreat, and with a reversal."""

    state: MoveState
    attempt: int = 1
    way: Way = "one-way"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveView:
    """The facts that a mover reads. `newest` is the version of the table. The flags tell of the rows and the capture.

    - `is_captured`: writes of the source are logged.
    - `is_captured_back`: writes of the target are logged.
    - `is_copied`: every chunk has been copied.
    - `is_near`: the log of the source is short, so that a fence would be short too.
    - `is_drained`: the target has every logged change of the source.
    - `is_verified`: the rows of both shards were compared in this attempt, and are equal.
    - `is_late`: the fence has stood for longer than writers should wait.
    - `is_cleaned`: the shard that loses the slots has no row of them.
    - `is_listed`: the slots are listed as moving, so that no other move can take them.
    - `is_target_away`: the target did not answer. Then `target` and the flags of the copy have no meaning.
    """

    record: MoveRecord
    newest: Version
    source: SlotRow
    target: SlotRow | None
    is_captured: bool = False
    is_captured_back: bool = False
    is_copied: bool = False
    is_near: bool = False
    is_drained: bool = False
    is_verified: bool = False
    is_late: bool = False
    is_cleaned: bool = False
    is_listed: bool = True
    is_target_away: bool = False
    wish: Wish = "go"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAct:
    """One act: a single commit in the control store or on one shard. `record` is the record that it writes, if any."""

    label: Label
    record: MoveRecord | None = None
    number: Version | None = None


def delay_seconds(attempt: int) -> float:
    """Return the time between a retreat and the fence of this attempt. Writers go on meanwhile.

    It doubles with each attempt. So a machine that is too busy for a switch serves its writers most of the time.

    >>> [delay_seconds(attempt) for attempt in (1, 2, 3, 4, 7, 1_000_000)]
    [0.0, 0.5, 1.0, 2.0, 4.0, 4.0]
    """
    retreats = min(attempt - 1, 16)
    return min(_FIRST_DELAY_SECONDS * 2 ** (retreats - 1), _LONGEST_DELAY_SECONDS) if retreats else 0.0


def next_act(found: MoveView) -> MoveAct | None:
    """Return the next act.

    Return None if nothing is left to do, if the move is paused, or if the act needs a target that is away.
    """
    state = found.record.state
    if found.wish == "abort" and state in BEFORE_SWITCH:
        return _to(found, "aborted")
    if state == "fenced" and (found.wish == "pause" or found.is_late):
        return _to(found, "catching-up", attempts=1)
    act = _NEXT[state](found)
    if act is not None and found.is_target_away:
        return act if act.label in WITHOUT_TARGET else None
    if act is not None and found.wish == "pause":
        return act if act.label in WHILE_PAUSED else None
    return act


def _to(found: MoveView, state: MoveState, *, attempts: int = 0) -> MoveAct:
    return MoveAct(label="record", record=replace(found.record, state=state, attempt=found.record.attempt + attempts))


def _planned(found: MoveView) -> MoveAct:
    """No chunk is copied on the way back: the target has its old rows, and the source has logged all later writes."""
    if found.target is None or found.target.state == "moved":
        return MoveAct(label="prepare")
    return _to(found, "catching-up" if found.record.way == "back" else "prepared")


def _prepared(found: MoveView) -> MoveAct:
    """Capture begins before the first chunk is read."""
    return _to(found, "copying") if found.is_captured else MoveAct(label="capture")


def _copying(found: MoveView) -> MoveAct:
    return _to(found, "catching-up") if found.is_copied else MoveAct(label="chunk")


def _catching_up(found: MoveView) -> MoveAct:
    """Begin an attempt, the first one or one after a retreat. By then the record says that the attempt before is over.

    The source is opened first, also while the target is away. That is safe, because no table names the target. The
    target of a reversible move logs its writes before a switch can open it.
    """
    if found.source.state == "fenced":
        return MoveAct(label="unfence")
    if found.target is not None and found.target.number is not None:
        return MoveAct(label="withdraw")
    if not found.is_near:
        return MoveAct(label="apply-log")
    if not found.is_verified:
        return MoveAct(label="verify")
    if found.record.way == "reversible" and not found.is_captured_back:
        return MoveAct(label="capture-back")
    return _to(found, "verified")


def _verified(found: MoveView) -> MoveAct:
    """Write the intent of a fence: no mover fences before the record says so."""
    return _to(found, "fenced")


def _fenced(found: MoveView) -> MoveAct:
    if found.source.state == "owner":
        return MoveAct(label="fence")
    if not found.is_drained:
        return MoveAct(label="apply-log")
    if not found.is_verified:
        return MoveAct(label="verify")
    announced = None if found.target is None else found.target.number
    after = Version(incarnation=found.newest.incarnation, number=found.newest.number + 1)
    if announced != after:
        return MoveAct(label="announce", number=after)
    return MoveAct(label="switch", record=replace(found.record, state="switched"), number=after)


def _switched(found: MoveView) -> MoveAct:
    if found.source.state == "fenced":
        return MoveAct(label="settle-source")
    if found.is_target_away or (found.target is not None and found.target.state == "incoming"):
        return MoveAct(label="settle-target")
    return _to(found, "complete")


def _complete(found: MoveView) -> MoveAct:
    """Clean up. The record ends the way back before the first old row is deleted."""
    if found.is_captured:
        return MoveAct(label="uncapture")
    if found.record.way == "reversible":
        return MoveAct(label="forgo", record=replace(found.record, way="one-way"))
    if not found.is_cleaned:
        return MoveAct(label="clean-batch")
    return MoveAct(label="uncapture-back") if found.is_captured_back else _to(found, "cleaned")


def _cleaned(found: MoveView) -> MoveAct | None:
    return MoveAct(label="release") if found.is_listed else None


def _aborted(found: MoveView) -> MoveAct | None:
    """Undo the move.

    The target never accepted writers: no table names it, because a switch would have changed the record. On the way
    back, the target has old rows even if the move never prepared it.
    """
    if found.source.state == "fenced":
        return MoveAct(label="unfence")
    if found.is_target_away or (found.target is not None and found.target.state != "moved"):
        return MoveAct(label="drop")
    if found.record.way == "back" and not found.is_cleaned:
        return MoveAct(label="clean-back")
    if found.is_captured_back:
        return MoveAct(label="uncapture-back")
    if found.is_captured:
        return MoveAct(label="uncapture")
    return MoveAct(label="release") if found.is_listed else None


_NEXT: Mapping[MoveState, Callable[[MoveView], MoveAct | None]] = {
    "planned": _planned,
    "prepared": _prepared,
    "copying": _copying,
    "catching-up": _catching_up,
    "verified": _verified,
    "fenced": _fenced,
    "switched": _switched,
    "complete": _complete,
    "cleaned": _cleaned,
    "aborted": _aborted,
}
