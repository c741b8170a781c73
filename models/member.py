"""Member: one step of one process, as the shipped `HandOver` decides it, and what its promises say against it.

What a driver would do around it is done in every way that is allowed: it looks at news late or never, looks again at
what it knew or not, hears of its own commits late or never. Each step returns every outcome.
"""

from collections.abc import Iterator
from typing import NamedTuple

from apportion.cluster.handover import Act, Event, HandOver, Known, Me, Phase, request
from apportion.cluster.records import Ownership, decoded
from apportion.stores.api import Absent
from models.parts import KEYS, MEMBERS, OWN, PARTITION, Landed, Process, Request, Store, Token

_WAITING = (Phase.ASKING, Phase.GIVING, Phase.DRAINING)
_COMMITS = (Act.CLAIM, Act.TAKE_OVER, Act.BURY, Act.RENUMBER, Act.GIVE, Act.ABSOLVE)


class Did(NamedTuple):
    """One outcome: the process after it, commits that nobody waits for any more, the epoch that it begins to serve.

    It is lucky when the member took it that an owner who died of the partition for all we know did not: no state may
    need that to get on.
    """

    process: Process
    late: tuple[Request, ...] = ()
    served: int = 0
    broken: str = ""
    act: Act | None = None
    is_lucky: bool = False


def sees(process: Process, store: Store, *, poison: bool) -> Iterator[Did]:
    """It learns what the store holds now, and looks at it."""
    yield from looks(process._replace(view=store), poison=poison)


def looks(process: Process, *, poison: bool) -> Iterator[Did]:
    """It looks at what it knows, once with each answer to how long somebody has served."""
    assert process.me is not None
    assert process.view is not None
    record = process.view.record
    first: Did | None = None
    for doubt in (True, False) if poison and record.owner is not None else (False,):
        known = _known(process.view, process.me, for_long=doubt)
        machine, act = process.machine.look(known, process.me)
        did = _acts(process, machine, act, known)
        is_mine = (record.owner, record.session) == (process.me.id, process.me.session)
        if did.process.machine.phase is Phase.SERVING and not is_mine and not did.broken:
            did = did._replace(broken="Stops: it serves on, having seen that another owns it")
        if did != first:
            yield did._replace(is_lucky=first is not None)
        first = first or did


def replied(process: Process, *, poison: bool) -> Iterator[Did]:
    """The reply to its commit reaches it."""
    landed = process.waits
    assert isinstance(landed, Landed)
    process = process._replace(waits=None)
    if not landed.version:
        yield from told(process, Event.FAILED, poison=poison)
        return
    if process.view is not None and process.view.version < landed.version:
        process = process._replace(view=process.view._replace(record=landed.request.record, version=landed.version))
    yield from told(process, Event.DONE, epoch=landed.request.record.epoch, poison=poison)


def lost(process: Process, *, poison: bool) -> Iterator[Did]:
    """It gives up waiting for a reply; the commit may have happened, or may yet."""
    late = (process.waits,) if isinstance(process.waits, Request) else ()
    for did in told(process._replace(waits=None), Event.FAILED, poison=poison):
        yield did._replace(late=late + did.late)


def ended(process: Process, *, poison: bool) -> Iterator[Did]:
    """What it had begun ends."""
    yield from told(process._replace(hold=None), Event.QUIET, poison=poison)


def over(process: Process) -> Did:
    """It learns that its session has ended."""
    late = (process.waits,) if isinstance(process.waits, Request) else ()
    machine, act = process.machine.step(Event.OVER)
    broken = "Stops: it serves on, knowing that its session has ended" if machine.phase is Phase.SERVING else ""
    return Did(Process(machine=machine, hold=process.hold), late, 0, broken, act)


def told(process: Process, event: Event, *, poison: bool, epoch: int = 0) -> Iterator[Did]:
    """It takes one event of its own, and then looks again at what it knew, or not."""
    machine, act = process.machine.step(event, epoch=epoch)
    did = _begins(process, machine, epoch) if act is Act.SERVE else Did(_settled(process, machine), act=act)
    yield did
    if process.me is None or process.view is None or did.broken or machine.phase in _WAITING:
        return
    for again in looks(did.process._replace(view=process.view), poison=poison):
        if again.act is not None:
            yield again._replace(served=did.served or again.served)


def lands(waiting: Request, store: Store) -> Store | None:
    """Return what a commit makes of the store; None when a compare refuses it."""
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


def _known(view: Store, me: Me, *, for_long: bool) -> Known:
    record, wanted = view.record, view.target
    there = view.session(wanted)
    return Known(
        record=record,
        revision=view.version,
        session=view.session(record.owner),
        is_wanted=wanted == me.id,
        receiver=None if wanted == me.id or there is None else Me(id=wanted, session=there),
        is_deadly=for_long,
        is_proven=for_long and record.deaths > 0,
    )


def _acts(process: Process, machine: HandOver, act: Act | None, known: Known) -> Did:
    if act is Act.SERVE:
        return _begins(process, machine, known.record.epoch)
    if act not in _COMMITS:
        return Did(_settled(process, machine), act=act)
    assert process.me is not None
    sent = _request(act, known, process.me)
    if act is Act.ABSOLVE:
        return Did(_settled(process, machine), late=(sent,), act=act)
    late = (process.waits,) if isinstance(process.waits, Request) else ()
    return Did(process._replace(machine=machine, waits=sent), late=late, broken=_miscounted(sent, known), act=act)


def _miscounted(sent: Request, known: Known) -> str:
    """Return what is wrong with the deaths that a commit counts: one more if its owner died of it, none once given."""
    has_died = known.is_deadly and sent.act in (Act.TAKE_OVER, Act.BURY)
    deaths = 0 if sent.act is Act.GIVE else known.record.deaths + has_died
    return "" if sent.record.deaths == deaths else "Deaths: a death is not counted, or one that was none"


def _begins(process: Process, machine: HandOver, epoch: int) -> Did:
    """It serves, and at once begins something under its token."""
    assert process.me is not None
    broken = "HoldsApart: it serves anew while something begun before goes on" if process.hold else ""
    token = Token(epoch, process.me.session)
    return Did(_settled(process, machine)._replace(hold=token), served=epoch, broken=broken, act=Act.SERVE)


def _settled(process: Process, machine: HandOver) -> Process:
    """Forget what it knew unless it may act on it again without news."""
    return process._replace(machine=machine, view=process.view if machine.phase in _WAITING else None)


def _request(act: Act, known: Known, me: Me) -> Request:
    when, put = request(act, PARTITION, known, me, KEYS)
    pairs = tuple((each.key, None if isinstance(each, Absent) else each.revision) for each in when)
    return Request(act, pairs, decoded(Ownership, put.value))
