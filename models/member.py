"""Member: one step of one process, as the shipped `HandOver` decides it, and a check of its promises.

The model takes every way that a driver is allowed. A driver looks at news late or never. It looks again at the view it
knew or not. It hears of its own commits late or never. Each step returns every outcome.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from apportion.groups.crash_loops import HEALTHY_SECONDS, with_death
from apportion.groups.handover import Act, HandOver, HandOverEvent, Known, OwnSession, Phase, request
from apportion.groups.view.records import OwnershipRecord, decoded
from apportion.stores.api import Absent
from models.parts import KEYS, MEMBERS, OWN, PARTITION, Landed, Process, Request, Store, Token

_WAITING = (Phase.ASKING, Phase.GIVING, Phase.DRAINING)
_COMMITS = (Act.CLAIM, Act.TAKE_OVER, Act.RENUMBER, Act.GIVE, Act.ABSOLVE)


class Doubt(Enum):
    """An answer to two questions: did the owner serve for a minute, and does the process of its session live on?"""

    DIED = "soon, and its process died"
    LIVED = "soon, and its process lives on"
    LONG = "for a minute"


class Did(NamedTuple):
    """One outcome: the process after it, commits that nobody waits for any more, the epoch that it begins to serve.

    It is lucky when the member took it that a session did not count which may have: no state may need that to get on.
    """

    process: Process
    late: tuple[Request, ...] = ()
    served: int = 0
    broken: str = ""
    act: Act | None = None
    is_lucky: bool = False


def sees(process: Process, store: Store, *, deaths: bool) -> Iterator[Did]:
    """The process learns the present content of the store, and looks at it."""
    yield from looks(process._replace(view=store), deaths=deaths)


def looks(process: Process, *, deaths: bool) -> Iterator[Did]:
    """The process looks at the view it knows, once per answer to the time the owner served and to its life.

    A wait for the next owner is no step of its own: news may come late anyway.
    """
    assert process.me is not None
    assert process.view is not None
    record = process.view.record
    first: Did | None = None
    for doubt in _doubts(process.view) if deaths else (Doubt.LIVED,):
        known = known_at(process.view, process.me, doubt)
        machine, act = process.machine.look(known, process.me)
        did = _acts(process, machine, act, known)
        is_mine = (record.owner, record.session) == (process.me.id, process.me.session)
        if did.process.machine.phase is Phase.SERVING and not is_mine and not did.broken:
            did = did._replace(broken="Stops: it serves on, having seen that another owns it")
        elif process.machine.phase is Phase.DRAINING and not is_mine and did.act is not Act.STOP:
            did = did._replace(broken="Stops: it does not stop what it had begun, having seen that another owns it")
        if did != first:
            yield did._replace(is_lucky=first is not None)
        first = first or did


def replied(process: Process, *, deaths: bool) -> Iterator[Did]:
    """The reply to its commit reaches it."""
    landed = process.waits
    assert isinstance(landed, Landed)
    process = process._replace(waits=None)
    if not landed.version:
        yield from told(process, HandOverEvent.FAILED, deaths=deaths)
        return
    if process.view is not None and process.view.version < landed.version:
        process = process._replace(view=process.view._replace(record=landed.request.record, version=landed.version))
    yield from told(process, HandOverEvent.DONE, epoch=landed.request.record.epoch, deaths=deaths)


def lost(process: Process, *, deaths: bool) -> Iterator[Did]:
    """It gives up waiting for a reply; the commit may have happened, or may yet."""
    late = (process.waits,) if isinstance(process.waits, Request) else ()
    for did in told(process._replace(waits=None), HandOverEvent.FAILED, deaths=deaths):
        yield did._replace(late=late + did.late)


def ended(process: Process, *, deaths: bool) -> Iterator[Did]:
    """The work that the process had begun ends."""
    yield from told(process._replace(hold=None), HandOverEvent.QUIET, deaths=deaths)


def over(process: Process) -> Did:
    """It learns that its session has ended."""
    late = (process.waits,) if isinstance(process.waits, Request) else ()
    machine, act = process.machine.step(HandOverEvent.OVER)
    broken = "Stops: it serves on, knowing that its session has ended" if machine.phase is Phase.SERVING else ""
    return Did(Process(machine=machine, hold=process.hold), late, 0, broken, act)


def told(process: Process, event: HandOverEvent, *, deaths: bool, epoch: int = 0) -> Iterator[Did]:
    """The process takes one event of its own, and then looks again at the view it knew, or not."""
    machine, act = process.machine.step(event, epoch=epoch)
    did = _begins(process, machine, epoch) if act is Act.SERVE else Did(_settled(process, machine), act=act)
    yield did
    if process.me is None or process.view is None or did.broken or machine.phase in _WAITING:
        return
    for again in looks(did.process._replace(view=process.view), deaths=deaths):
        if again.act is not None:
            yield again._replace(served=did.served or again.served)


def lands(waiting: Request, store: Store) -> Store | None:
    """Return the store after a commit; None when a compare refuses it."""
    for key, revision in waiting.when:
        if _revision(store, key) != revision:
            return None
    return store._replace(record=waiting.record, version=store.version + 1)


def is_hopeless(waiting: Request, store: Store) -> bool:
    """Whether a commit will be refused for ever: neither versions nor sessions come back."""
    return any(
        (revision != _revision(store, key)) if revision is not None else (key == OWN and store.version > 0)
        for key, revision in waiting.when
    )


def _revision(store: Store, key: str) -> int | None:
    if key == OWN:
        return store.version or None
    session = store.sessions[MEMBERS[key]]
    return session if session > 0 else None


def _doubts(view: Store) -> Sequence[Doubt]:
    """Return the possible answers, first the one that time brings: a minute passes, or a process that is gone died."""
    return (Doubt.DIED, Doubt.LIVED, Doubt.LONG) if _is_over(view) else (Doubt.LONG, Doubt.LIVED)


def _is_over(view: Store) -> bool:
    return view.record.owner is not None and view.session(view.record.owner) != view.record.session


def known_at(view: Store, me: OwnSession, doubt: Doubt) -> Known:
    """Return the state that a member knows from a view, under an answer to its doubt."""
    record, wanted = view.record, view.target
    there = view.session(wanted)
    lasted = HEALTHY_SECONDS if doubt is Doubt.LONG else 0.0
    lived = (*record.ended, record.session) if doubt is Doubt.LIVED else ()
    before = tuple(each for each in record.ended if each not in lived)
    ended = with_death(before, record.session, lasted_seconds=lasted, lived=lived) if _is_over(view) else before
    return Known(
        record=record,
        revision=view.version,
        session=view.session(record.owner),
        is_wanted=wanted == me.id,
        receiver=None if wanted == me.id or there is None else OwnSession(id=wanted, session=there),
        ended=ended,
        is_proven=doubt is Doubt.LONG and bool(record.ended),
    )


def _acts(process: Process, machine: HandOver, act: Act | None, known: Known) -> Did:
    if act is Act.SERVE:
        return _begins(process, machine, known.record.epoch)
    if act not in _COMMITS:
        return Did(_settled(process, machine), act=act)
    assert process.me is not None
    sent = requested(act, known, process.me)
    if act is Act.ABSOLVE:
        return Did(_settled(process, machine), late=(sent,), act=act)
    late = (process.waits,) if isinstance(process.waits, Request) else ()
    broken = "" if sent.record.ended == known.ended else "Deaths: a commit lists other sessions than those that count"
    return Did(process._replace(machine=machine, waits=sent), late=late, broken=broken, act=act)


def _begins(process: Process, machine: HandOver, epoch: int) -> Did:
    """It serves, and at once begins something under its token."""
    assert process.me is not None
    broken = "HoldsApart: it serves anew while something begun before goes on" if process.hold else ""
    token = Token(epoch, process.me.session)
    return Did(_settled(process, machine)._replace(hold=token), served=epoch, broken=broken, act=Act.SERVE)


def _settled(process: Process, machine: HandOver) -> Process:
    """Forget the known view, unless the process may act on it again without news."""
    return process._replace(machine=machine, view=process.view if machine.phase in _WAITING else None)


def requested(act: Act, known: Known, me: OwnSession) -> Request:
    """Return the commit of an act."""
    when, put = request(act, PARTITION, known, me, KEYS)
    pairs = tuple((each.key, None if isinstance(each, Absent) else each.revision) for each in when)
    return Request(act, pairs, decoded(OwnershipRecord, put.value))
