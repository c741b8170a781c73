"""World: all that may happen next, in one state: the acts of members and of a hostile environment.

The environment is hostile in four ways. The writer of the target flips it at will. The network lands commits late or
never, and loses replies. The store ends leases unknown to the member. Time delays news and the end of work, and a
process may go on beside its successor. `Bounds` alone bounds all of this.

A state is a tuple of small numbers: store, faults left, guard, served epochs, late commits, then one number per
process. A state leaves out everything that cannot matter any more, so that equal futures are equal states.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apportion.groups.handover import Act, OwnSession, Phase
from apportion.groups.view.records import OwnershipRecord
from apportion.model.epoch import FencingToken
from models import member
from models.member import Did
from models.parts import IDS, OWN, Landed, Numbers, Process, Request, Store, Token, of_process, of_store
from models.step import Step

State = tuple[int, ...]
FIRST = 5  # where the numbers of the processes begin in a state
TARGET, NETWORK = -1, -2  # the actor, where it is no process
_NONE: frozenset[int] = frozenset()


class Bounds(NamedTuple):
    """How often the target flips, a lease ends, a process is replaced while it runs on; the highest epoch."""

    flips: int
    ends: int
    restarts: int
    epochs: int = 12


class Move(NamedTuple):
    """The act of one process, alone or with the store: their numbers after it."""

    kind: str
    process: int
    store: int
    late: tuple[int, ...] = ()
    served: int = 0
    is_fault: bool = False
    broken: str = ""


class World:
    """One partition, two ids. With `deaths`, the time an owner served is unknown, and so is the life of its process.

    With `guarded`, the written resource refuses older tokens, as guards do.
    """

    def __init__(self, bounds: Bounds, *, deaths: bool = False, guarded: bool = True) -> None:
        self.bounds, self.deaths, self.guarded = bounds, deaths, guarded
        sessions = tuple(range(1, len(IDS) + 1))
        self.stores = Numbers(Store(OwnershipRecord(), 0, sessions, IDS[0]), of_store)
        self.processes: Numbers[Process] = Numbers(Process(), of_process)
        self.faults: Numbers[tuple[int, int, int]] = Numbers(bounds[:3])
        self.fences: Numbers[Token | None] = Numbers(
            None, lambda token: (0 if token is None else (2 << token.epoch) - 1, 0)
        )
        self.requests: Numbers[Request | None] = Numbers(None)
        self.lates: Numbers[frozenset[int]] = Numbers(_NONE)
        self.is_cut = False
        started = [
            self.processes(Process(me=OwnSession(id=IDS[each], session=sessions[each]))) for each in range(len(IDS))
        ]
        self.initial: State = (0, 0, 0, 0, 0, *started, *[0] * bounds.restarts)
        self._moves: dict[tuple[int, int, int], tuple[Move, ...]] = {}
        self._writes: dict[tuple[int, int, int], tuple[int, str]] = {}
        self._lates_left: dict[tuple[int, int], int] = {}
        self._lands: dict[tuple[int, int], tuple[int, str]] = {}
        self._goals: dict[tuple[int, int], bool] = {}

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Yield all that may happen next."""
        store, late = state[0], state[4]
        for slot, number in enumerate(state[FIRST:]):
            key = (number, store, min(slot, len(IDS)))
            moves = self._moves.get(key)
            if moves is None:
                moves = self._moves[key] = tuple(self._moves_of(slot, number, store))
            for move in moves:
                yield self._moved(state, slot, move)
            if self.processes.of[number].hold is not None:
                yield from self._written(state, slot, number)
        for waiting in self.lates.of[late]:
            landed, broken = self._landed(waiting, store)
            if landed:
                is_fault = self._request(waiting).act is not Act.ABSOLVE  # for which nobody waits
                yield self._step("a late commit lands", NETWORK, (landed, *state[1:]), is_fault, broken)
        yield from self._faults(state)

    def is_goal(self, state: State) -> bool:
        """Whether the target is so: its member owns and serves, and no death is listed any more."""
        slot = IDS.index(self.stores.of[state[0]].target)
        key = (state[0], state[FIRST + slot])
        if key not in self._goals:
            self._goals[key] = self._is_goal(*key)
        return self._goals[key]

    def highest(self, states: Sequence[State]) -> int:
        """Return the highest epoch that was granted in any of the states."""
        return max(self.stores.of[each].record.epoch for each in {state[0] for state in states})

    def _is_goal(self, store_number: int, process_number: int) -> bool:
        store, process = self.stores.of[store_number], self.processes.of[process_number]
        record, session = store.record, store.session(store.target)
        if record.epoch >= self.bounds.epochs:
            return True  # as far as we look
        serves = process.machine.phase is Phase.SERVING and process.hold == Token(record.epoch, record.session)
        return serves and (record.owner, record.session, record.ended) == (store.target, session, ())

    def _moves_of(self, slot: int, number: int, store_number: int) -> Iterator[Move]:
        store, process = self.stores.of[store_number], self.processes.of[number]
        for kind, did, is_fault in self._dids(process, store):
            late = tuple(map(self.requests, did.late))
            after = did.process
            if slot >= len(IDS) and after.me is None and after.hold is None:
                after = Process()  # replaced, and done
            if (after, late) != (process, ()) or did.broken:
                is_bad = is_fault or did.is_lucky
                yield Move(kind, self.processes(after), store_number, late, did.served, is_bad, did.broken)
        if isinstance(process.waits, Request):
            landed, broken = self._landed(self.requests(process.waits), store_number)
            version = self.stores.of[landed].version if landed else 0
            answered = self.processes(process._replace(waits=Landed(process.waits, version)))
            kind = "its commit lands" if landed else "its commit is refused"
            yield Move(kind, answered, landed or store_number, broken=broken)
        if process.me is None and slot < len(IDS) and store.sessions[slot] < 0:
            session = next_session(store.sessions[slot])
            joined = process._replace(me=OwnSession(id=IDS[slot], session=session))
            yield Move("joins again", self.processes(joined), self.stores(store.with_session(slot, session)))

    def _dids(self, process: Process, store: Store) -> Iterator[tuple[str, Did, bool]]:
        if process.me is not None:
            if process.me.session not in store.sessions:
                yield "learns that its session has ended", member.over(process), False
            for did in member.sees(process, store, deaths=self.deaths):
                yield "sees the store", did, False
        if isinstance(process.waits, Landed):
            for did in member.replied(process, deaths=self.deaths):
                yield "gets the reply", did, False
        if process.waits is not None:
            for did in member.lost(process, deaths=self.deaths):
                yield "gets no reply", did, True
        if process.hold is not None and process.machine.phase is not Phase.SERVING:
            for did in member.ended(process, deaths=self.deaths):
                yield "ends what it had begun", did, False

    def _landed(self, waiting: int, store_number: int) -> tuple[int, str]:
        """Return the store after a commit, and the promise it breaks; store 0 when the commit is refused."""
        key = (waiting, store_number)
        if key not in self._lands:
            store = self.stores.of[store_number]
            landed = member.lands(self._request(waiting), store)
            if landed is not None and landed.record.epoch > self.bounds.epochs:
                self.is_cut, landed = True, None
            self._lands[key] = (0, "") if landed is None else (self.stores(landed), _breach(store, landed))
        return self._lands[key]

    def _written(self, state: State, slot: int, number: int) -> Iterator[Step[State]]:
        store, left, fence, used, late, *numbers = state
        key = (number, store, fence)
        if key not in self._writes:
            self._writes[key] = self._write(*key)
        kept, broken = self._writes[key]
        if kept != fence or broken:
            yield self._step("writes", slot, (store, left, kept, used, late, *numbers), broken=broken)

    def _write(self, number: int, store_number: int, fence: int) -> tuple[int, str]:
        token, kept, store = self.processes.of[number].hold, self.fences.of[fence], self.stores.of[store_number]
        assert token is not None
        if self.guarded and not accepts(kept, token):
            is_right = token.session in store.sessions and token.epoch == store.record.epoch
            return fence, "OwnerWrites: the write of a live owner is refused" if is_right else ""
        broken = ""
        if kept is not None and token.epoch < kept.epoch:
            broken = "FenceMonotone: an older write is accepted"
        elif kept is not None and token.epoch == kept.epoch and token.session != kept.session:
            broken = "TokenUnique: two write under one epoch"
        return self.fences(token), broken

    def _faults(self, state: State) -> Iterator[Step[State]]:
        number, left, *rest = state
        store, (flips, ends, restarts) = self.stores.of[number], self.faults.of[left]
        if flips:
            target = IDS[1 - IDS.index(store.target)]
            after = (self.stores(store._replace(target=target)), self.faults((flips - 1, ends, restarts)))
            yield self._step("the target flips", TARGET, (*after, *rest), is_fault=True)
        for slot, session in enumerate(store.sessions):
            if ends and session > 0:
                after = (self.stores(store.with_session(slot, -session)), self.faults((flips, ends - 1, restarts)))
                yield self._step("its lease ends", slot, (*after, *rest), is_fault=True)
            process = self.processes.of[state[FIRST + slot]]
            if restarts and session < 0 and (process.me is not None or process.hold is not None):
                after = (
                    self.stores(store.with_session(slot, next_session(session))),
                    self.faults((flips, ends, restarts - 1)),
                )
                numbers = self._replaced(state[FIRST:], slot, next_session(session))
                yield self._step("is started again", slot, (*after, *state[2:FIRST], *numbers), is_fault=True)

    def _replaced(self, processes: tuple[int, ...], slot: int, session: int) -> list[int]:
        """Return the processes once one has a successor; it goes on beside it, in the last places."""
        numbers = list(processes)
        old, numbers[slot] = numbers[slot], self.processes(Process(me=OwnSession(id=IDS[slot], session=session)))
        numbers[numbers.index(0, len(IDS))] = old
        return numbers

    def _moved(self, state: State, slot: int, move: Move) -> Step[State]:
        _, left, fence, used, late, *numbers = state
        numbers[slot] = move.process
        broken = move.broken
        if move.served:
            bit = 1 << move.served
            broken = broken or ("TokenUnique: an epoch is served a second time" if used & bit else "")
            used |= bit
        if move.late:
            late = self.lates(self.lates.of[late].union(move.late))
        return self._step(move.kind, slot, (move.store, left, fence, used, late, *numbers), move.is_fault, broken)

    def _step(self, kind: str, slot: int, state: State, is_fault: bool = False, broken: str = "") -> Step[State]:
        """Make a step of its outcome, without the parts that cannot matter any more."""
        store, left, fence, used, late, *numbers = state
        epochs, _ = self.stores.facts[store]
        live, facts = 0, self.processes.facts
        for number in numbers:
            named, session = facts[number]
            epochs |= named
            if session and session in self.stores.of[store].sessions:
                live += 1
        if live > 1 and not broken:
            broken = "NoLiveOverlap: two live members work on it"
        if late:
            late = self._hopeful(late, store)
        if fence and not epochs & self.fences.facts[fence][0]:
            fence = 0  # all that may be written yet is newer
        return Step(kind, slot, (store, left, fence, used & epochs, late, *numbers), is_fault, broken)

    def _hopeful(self, late: int, store: int) -> int:
        """Return the late commits that may land yet."""
        key = (late, store)
        if key not in self._lates_left:
            left = frozenset(
                each
                for each in self.lates.of[late]
                if not member.is_hopeless(self._request(each), self.stores.of[store])
            )
            self._lates_left[key] = self.lates(left)
        return self._lates_left[key]

    def _request(self, number: int) -> Request:
        request = self.requests.of[number]
        assert request is not None
        return request


def next_session(session: int) -> int:
    """Return the session after one that has ended, of the same id."""
    return len(IDS) - session


def accepts(kept: Token | None, token: Token) -> bool:
    """Whether a guard that keeps one token takes a write under another: no older one, an equal one of its holder."""
    if kept is None:
        return True
    old, new = _fencing(kept), _fencing(token)
    return old < new or (not new < old and old.holder == new.holder)


def _fencing(token: Token) -> FencingToken:
    return FencingToken(resource=OWN, holder=str(token.session), incarnation=1, epoch=token.epoch)


def _breach(old: Store, new: Store) -> str:
    """Return which promise the write of a record breaks."""
    before, after = old.record, new.record
    is_same = (before.owner, before.session, before.epoch) == (after.owner, after.session, after.epoch)
    if after.epoch < before.epoch + (not is_same):
        return "EpochMonotone: a grant does not get an epoch of its own"
    if after.owner is not None and after.session not in new.sessions:
        return "GrantLives: it is granted to a session that has ended"
    if any(each in new.sessions for each in after.ended):
        return "Deaths: a session that lives is listed as ended"
    return ""
