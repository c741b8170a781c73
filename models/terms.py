"""Terms: the controller and its number, while leases end and revocations land late; by the `Ledger`.

A session is the same thing, with a member record instead of the controller's. Its number is the revision of that
record, and it goes with a lease that only its owner gives back. A result here therefore holds for both.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apportion.stores.ledger import Held, Ledger, Record
from apportion.stores.requests import CommitRequest
from models.step import Step

_SEAT, _TARGET = b"controller", b"target"


class Life(NamedTuple):
    """A process in one life: its name with a number, its lease and term (0: it is not, as far as it knows)."""

    name: str
    number: int = 0
    lease: int = 0
    term: int = 0

    @property
    def mark(self) -> bytes:
        """The keys that only this process writes."""
        return f"{self.name}{self.number}".encode()


class State(NamedTuple):
    """The content of a ledger except its history, the processes, revocations on their way, and the terms won."""

    records: tuple[tuple[bytes, Record], ...]
    revision: int
    leases: tuple[int, ...]
    next_lease: int
    lives: tuple[Life, ...]
    revokes: tuple[tuple[bytes, int], ...] = ()
    won: tuple[int, ...] = ()

    def ledger(self) -> Ledger:
        """Return the ledger."""
        held = {each: Held(ttl_seconds=1.0, ends_at=1.0) for each in self.leases}
        return Ledger(
            incarnation=1, revision=self.revision, next_lease=self.next_lease, records=dict(self.records), leases=held
        )


class Terms:
    """Two processes that stand for controller, `lives` times together."""

    def __init__(self, lives: int) -> None:
        self.lives = lives
        self.initial = State((), 0, (), 1, (Life("a"), Life("b")))

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Yield all that may happen next."""
        for slot, life in enumerate(state.lives):
            if life.term:
                yield from _writes(state, slot, life)
                yield _resigns(state, slot, life)
            elif sum(each.number for each in state.lives) < self.lives:
                yield _stands(state, slot, life)
        for revoke in state.revokes:
            yield _revoked(state, *revoke)
        for lease in state.leases:
            ledger = state.ledger()
            ledger.end(lease)
            yield Step(f"lease {lease} ends", -1, _after(state, ledger), is_fault=True)

    def is_goal(self, state: State) -> bool:
        """Whether there is a controller that knows it, or nobody may stand any more."""
        seat = dict(state.records).get(_SEAT)
        is_known = seat is not None and any(life.term == seat.revision for life in state.lives)
        return is_known or sum(life.number for life in state.lives) >= self.lives

    def highest(self, states: Sequence[State]) -> int:
        """Return the highest term that was won."""
        return max(max(state.won, default=0) for state in states)


def _stands(state: State, slot: int, life: Life) -> Step[State]:
    """It gets a lease, and is the controller if there is none."""
    ledger, life = state.ledger(), life._replace(number=life.number + 1)
    lease = ledger.grant(1.0, 0.0)
    term = ledger.commit(CommitRequest(((_SEAT, None),), ((_SEAT, life.mark, lease),), ()))
    broken = "TermUnique: a term is won a second time" if term in state.won else ""
    if term is None:
        ledger.end(lease)
        return Step(f"{life.name} stands, and there is one", slot, _after(state, ledger, slot, life))
    after = _after(state, ledger, slot, life._replace(lease=lease, term=term))
    won = tuple(sorted({*state.won, term}))
    return Step(f"{life.name} wins term {term} under lease {lease}", slot, after._replace(won=won), broken=broken)


def _writes(state: State, slot: int, life: Life) -> Iterator[Step[State]]:
    """It writes the target, as its term allows."""
    ledger = state.ledger()
    target = ledger.records.get(_TARGET)
    if target is not None and target.value == life.mark:
        return
    seat, at = ledger.records.get(_SEAT), None if target is None else target.revision
    request = CommitRequest(((_SEAT, life.term), (_TARGET, at)), ((_TARGET, life.mark, None),), ())
    if ledger.commit(request) is None:
        yield Step(f"{life.name} is refused", slot, _after(state, ledger, slot, life._replace(lease=0, term=0)))
        return
    is_right = seat is not None and seat.value == life.mark
    broken = "" if is_right else "OneWriter: who is not the controller writes the target"
    yield Step(f"{life.name} writes in term {life.term}", slot, _after(state, ledger), broken=broken)


def _resigns(state: State, slot: int, life: Life) -> Step[State]:
    """It leaves: the revocation of its lease is on its way."""
    after = _after(state, state.ledger(), slot, life._replace(lease=0, term=0))
    revokes = tuple(sorted({*state.revokes, (life.mark, life.lease)}))
    return Step(f"{life.name} resigns", slot, after._replace(revokes=revokes))


def _revoked(state: State, mark: bytes, lease: int) -> Step[State]:
    """A revocation lands; it may end only the lease of its sender."""
    ledger = state.ledger()
    seat = ledger.records.get(_SEAT)
    ledger.end(lease)
    is_wrong = _SEAT not in ledger.records and seat is not None and seat.value != mark
    broken = "OwnLease: one life ends another by giving back its own lease" if is_wrong else ""
    after = _after(state, ledger)._replace(revokes=tuple(each for each in state.revokes if each != (mark, lease)))
    return Step(f"the revocation of lease {lease} lands", -1, after, broken=broken)


def _after(state: State, ledger: Ledger, slot: int = 0, life: Life | None = None) -> State:
    lives = tuple(life if life is not None and each == slot else old for each, old in enumerate(state.lives))
    return state._replace(
        records=tuple(sorted(ledger.records.items())),
        revision=ledger.revision,
        leases=tuple(sorted(ledger.leases)),
        next_lease=ledger.next_lease,
        lives=lives,
    )
