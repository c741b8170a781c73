"""Reshard: the shipped machine of a move between two shards, with movers that die or act late, and writers of any age.

A mover takes the token of the election, guards both shards by it, and then reads, decides and acts, again and again.
An act on its way may land after a later mover has begun. Writers route by any table that was ever published, or by
none. The slot has lain on the target before, so the oldest table names the target.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from apportion.shards import slot_rows
from apportion.shards.reshard import MoveAct, MoveView, next_act
from apportion.shards.slot_rows import SlotState
from apportion.sim.invariants.shards import accepting, is_forbidden
from models.move_world import SOURCE, TARGET, MoveBounds, Mover, MoveWorld, Row, Sent, turned, version
from models.step import Step

Side = TypeVar("Side", int, bool)


class Reshard:
    """The world that the explorer walks."""

    def __init__(self, bounds: MoveBounds) -> None:
        self.initial = MoveWorld(
            state="planned",
            attempt=1,
            revision=1,
            names=(TARGET, SOURCE),
            source=Row("owner", 2),
            target=Row("moved", 1),
            guards=(1, 1),
            values=(0, 0),
            acked=0,
            logged=(0, 0),
            cursors=(0, 0),
            captured=(False, False),
            flags=(False,) * 3,
            mover=Mover(token=1, guarded=2),
            late=(),
            left=bounds,
            way="reversible" if bounds.reverses else "one-way",
        )

    def steps(self, state: MoveWorld) -> Iterator[Step[MoveWorld]]:
        """Yield all that may happen next."""
        yield from map(_checked, _movers(state))
        yield from map(_checked, _writers(state))
        yield from map(_checked, _troubles(state))

    def is_goal(self, state: MoveWorld) -> bool:
        """Whether the move is over, and nothing of it is left."""
        return next_act(state.found()) is None and state.mover.sent is None

    def highest(self, states: Sequence[MoveWorld]) -> int:
        """Return the highest number of a table."""
        return max(len(state.names) for state in states)


def _movers(state: MoveWorld) -> Iterator[Step[MoveWorld]]:
    mover = state.mover
    if mover.guarded < 2:
        guards = tuple(
            max(old, mover.token) if shard == mover.guarded else old for shard, old in enumerate(state.guards)
        )
        after = state._replace(guards=guards, mover=mover._replace(guarded=mover.guarded + 1))
        yield Step(f"guards the {'target' if mover.guarded else 'source'}", mover.token, after)
    elif mover.sent is None:
        yield from _decisions(state, state.found(), "decides")
        if state.left.aways:
            found = replace(
                state.found(),
                target=None,
                is_target_away=True,
                is_captured=False,
                is_captured_back=False,
                is_copied=False,
                is_near=False,
                is_drained=False,
                is_verified=False,
            )
            after = state._replace(left=_less(state, "aways"))
            yield from (step._replace(is_fault=True) for step in _decisions(after, found, "does not see the target"))
    else:
        yield Step(
            f"does: {mover.sent.act.label}",
            mover.token,
            lands(state, mover.sent)._replace(mover=mover._replace(sent=None)),
        )
        if state.left.losses:
            late = state._replace(
                mover=mover._replace(sent=None), late=(*state.late, mover.sent), left=_less(state, "losses")
            )
            yield Step(f"hears nothing of: {mover.sent.act.label}", mover.token, late, is_fault=True)
    for place, sent in enumerate(state.late):
        rest = (*state.late[:place], *state.late[place + 1 :])
        yield Step(f"lands late: {sent.act.label}", sent.token, lands(state._replace(late=rest), sent))


def _decisions(state: MoveWorld, found: MoveView, words: str) -> Iterator[Step[MoveWorld]]:
    act = next_act(found)
    if act is not None:
        sent = Sent(act, state.mover.token, state.revision, state.values[SOURCE], state.way == "back")
        after = state._replace(mover=state.mover._replace(sent=sent))
        yield Step(f"{words}: {act.label}", state.mover.token, after)


def _writers(state: MoveWorld) -> Iterator[Step[MoveWorld]]:
    if not state.left.writes:
        return
    for shard in (SOURCE, TARGET):
        row = state.row(shard)
        known = [version(number) for number, named in enumerate(state.names, start=1) if named == shard]
        for who in (*known, None):
            if row is not None and slot_rows.accepts(row, who):
                label = f"writes to the {'target' if shard else 'source'} " + (
                    f"by table {who.number}" if who else "bare"
                )
                yield Step(label, 9, _written(state, shard), is_fault=True)


def _written(state: MoveWorld, shard: int) -> MoveWorld:
    acked = state.acked + 1
    after = state._replace(values=_set(state.values, shard, acked), acked=acked, left=_less(state, "writes"))
    if state.captured[shard]:
        after = after._replace(logged=_set(state.logged, shard, acked))
    if shard == SOURCE:
        return after._replace(source=_owned(state.source))
    return after._replace(target=None if state.target is None else _owned(state.target))


def _owned(row: Row) -> Row:
    return Row(slot_rows.written(row.row).state, row.number)


def _troubles(state: MoveWorld) -> Iterator[Step[MoveWorld]]:
    left = state.left
    if left.publications:
        names = (*state.names, state.names[-1])
        after = state._replace(names=names, left=_less(state, "publications"))
        yield Step("another publishes a table", 8, after, is_fault=True)
    if left.movers:
        late = (*state.late, *([state.mover.sent] if state.mover.sent else ()))
        after = state._replace(mover=Mover(state.mover.token + 1), late=late, left=_less(state, "movers"))
        yield Step("another mover is elected", 8, after, is_fault=True)
    if left.aborts and not state.is_aborting:
        yield Step("is to be aborted", 8, state._replace(is_aborting=True, left=_less(state, "aborts")), is_fault=True)
    if left.retreats and state.state == "fenced" and not state.is_late:
        yield Step("drains too long", 8, state._replace(is_late=True, left=_less(state, "retreats")), is_fault=True)

    if left.reverses and (state.state, state.way) == ("complete", "reversible"):
        yield Step("is reversed", 8, _reversed(state), is_fault=True)


def _reversed(state: MoveWorld) -> MoveWorld:
    """Return the state after the commit of a reversal. A mover guards both shards again."""
    after = turned(state)._replace(state="planned", attempt=state.attempt + 1, revision=state.revision + 1, way="back")
    after = after._replace(is_aborting=False, is_late=False, flags=(False,) * 3, left=_less(state, "reverses"))
    return after._replace(mover=state.mover._replace(guarded=0) if state.mover.guarded < 2 else state.mover)


def _less(state: MoveWorld, name: str) -> MoveBounds:
    return state.left._replace(**{name: getattr(state.left, name) - 1})


def lands(state: MoveWorld, sent: Sent) -> MoveWorld:
    """Return the state after an act: a commit of the control store, or of one shard under the mover's token."""
    act = sent.act
    if act.label == "release":
        return state._replace(is_listed=False, revision=state.revision + 1) if _holds(state, sent) else state
    if act.label in ("record", "forgo", "switch"):
        return _recorded(state, sent)
    if sent.is_back != (state.way == "back"):
        flags, sent = state.flags, sent._replace(is_back=not sent.is_back)
        return turned(lands(turned(state), sent))._replace(flags=flags)
    shard = SOURCE if act.label in ON_SOURCE else TARGET
    if sent.token < state.guards[shard]:
        return state
    # The guard's row is locked to the end of a transaction. So earlier acts on this shard have ended, or never begin.
    late = tuple(each for each in state.late if _shard_of(each.act) != shard or each.token > sent.token)
    return ACTS[act.label](state._replace(late=late), sent)


def _shard_of(act: MoveAct) -> int | None:
    """Return the shard that an act changes, None for the control store."""
    if act.label in ("record", "forgo", "switch", "release"):
        return None
    return SOURCE if act.label in ON_SOURCE else TARGET


def _holds(state: MoveWorld, sent: Sent) -> bool:
    """Whether the record is as it was when the act was decided."""
    return sent.revision == state.revision


def _recorded(state: MoveWorld, sent: Sent) -> MoveWorld:
    act = sent.act
    if not _holds(state, sent) or act.record is None:
        return state
    after = state._replace(state=act.record.state, attempt=act.record.attempt, revision=state.revision + 1)
    after = after._replace(way=act.record.way)
    if act.label == "switch":
        if act.number != version(len(state.names) + 1):
            return state
        return after._replace(names=(*state.names, TARGET))
    if act.record.attempt != state.attempt:
        copied, _, cleaned = state.flags
        return after._replace(is_late=False, flags=(copied, False, cleaned))
    return after


def _flag(state: MoveWorld, place: int, value: bool) -> MoveWorld:
    return state._replace(flags=tuple(value if each == place else old for each, old in enumerate(state.flags)))


def _capture(state: MoveWorld, shard: int, value: bool) -> MoveWorld:
    return state._replace(captured=_set(state.captured, shard, value))


def _set(pair: tuple[Side, Side], shard: int, value: Side) -> tuple[Side, Side]:
    """Return a pair with another value for one shard."""
    return (value, pair[TARGET]) if shard == SOURCE else (pair[SOURCE], value)


def _prepare(state: MoveWorld, _: Sent) -> MoveWorld:
    is_free = state.target is None or state.target.state == "moved"
    return state._replace(target=Row("incoming")) if is_free else state


def _apply_log(state: MoveWorld, sent: Sent) -> MoveWorld:
    cursor = max(state.cursors[SOURCE], min(sent.value, state.logged[SOURCE]))
    values = _set(state.values, TARGET, sent.value)
    return state._replace(values=values, cursors=_set(state.cursors, SOURCE, cursor))


def _chunk(state: MoveWorld, sent: Sent) -> MoveWorld:
    return _flag(state._replace(values=_set(state.values, TARGET, sent.value)), 0, True)


def _source(state: MoveWorld, was: SlotState, now: SlotState) -> MoveWorld:
    row = state.source
    return state._replace(source=Row(now, row.number)) if row.state == was else state


def _announce(state: MoveWorld, sent: Sent) -> MoveWorld:
    number = 0 if sent.act.number is None else sent.act.number.number
    is_incoming = state.target is not None and state.target.state == "incoming"
    return state._replace(target=Row("incoming", number)) if is_incoming else state


def _settle_target(state: MoveWorld, _: Sent) -> MoveWorld:
    is_incoming = state.target is not None and state.target.state == "incoming" and state.target.number
    return state._replace(target=_owned(state.target)) if is_incoming and state.target else state


def _clean(state: MoveWorld, _: Sent) -> MoveWorld:
    """Delete the rows of the source, if it does not own the slot."""
    if state.source.state != "moved":
        return state
    return _flag(state._replace(values=_set(state.values, SOURCE, 0)), 2, True)


def _clean_back(state: MoveWorld, _: Sent) -> MoveWorld:
    """Delete the old rows of the target, if they are no rows of a move."""
    if state.target is None or state.target.state != "moved":
        return state
    return _flag(state._replace(values=_set(state.values, TARGET, 0)), 2, True)


def _drop(state: MoveWorld, _: Sent) -> MoveWorld:
    if state.target is None or state.target.state != "incoming":
        return state
    cursors = _set(state.cursors, SOURCE, 0)
    return state._replace(target=Row("moved"), values=_set(state.values, TARGET, 0), cursors=cursors)


ON_SOURCE = frozenset({"capture", "fence", "unfence", "settle-source", "clean-batch", "uncapture", "verify"})
ACTS = {
    "prepare": _prepare,
    "capture": lambda state, _: _capture(state, SOURCE, True),
    "capture-back": lambda state, _: _capture(state, TARGET, True),
    "chunk": _chunk,
    "apply-log": _apply_log,
    "verify": lambda state, _: _flag(state, 1, True),
    "fence": lambda state, _: _source(state, "owner", "fenced"),
    "unfence": lambda state, _: _source(state, "fenced", "owner"),
    "announce": _announce,
    "withdraw": lambda state, sent: _announce(state, sent._replace(act=MoveAct(label="withdraw"))),
    "settle-source": lambda state, _: _source(state, "fenced", "moved"),
    "settle-target": _settle_target,
    "clean-batch": _clean,
    "clean-back": _clean_back,
    "uncapture": lambda state, _: _capture(state, SOURCE, False),
    "uncapture-back": lambda state, _: _capture(state, TARGET, False),
    "drop": _drop,
}


def _checked(step: Step[MoveWorld]) -> Step[MoveWorld]:
    broken = _broken(step.state)
    return step._replace(broken=broken) if broken else step


def _broken(state: MoveWorld) -> str:
    """Return the broken promise of a state: two shards accept, or the one that accepts lacks an acknowledged write."""
    rows = {shard: state.row(shard) for shard in (SOURCE, TARGET)}
    named = {
        shard: [version(number) for number, owner in enumerate(state.names, 1) if owner == shard] for shard in rows
    }
    shards = accepting(rows, named)
    if len(shards) > 1:
        return "S1: two shards accept the slot"
    if any(state.values[shard] != state.acked for shard in shards):
        return "S2: an acknowledged write is not on the shard that accepts the slot"
    for shard in shards:
        if is_forbidden(state.state, is_source=shard == SOURCE):
            return f"S4: the {'source' if shard == SOURCE else 'target'} accepts, and the move is {state.state}"
    return ""
