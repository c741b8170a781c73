"""Parts: the small values of which a state of the world consists, each known to the explorer by a number."""

from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from apportion.groups.handover import Act, HandOver, OwnSession
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord

IDS = ("a", "b")
KEYS = GroupKeys(group="g")
PARTITION = 0
OWN = KEYS.own(PARTITION)
MEMBERS = {KEYS.member(name): index for index, name in enumerate(IDS)}
Part = TypeVar("Part", bound=Hashable)


class Store(NamedTuple):
    """The content of the store, or an older content that a member still knows.

    `version` stands for the revision that wrote the record: it counts the writes of that key, and a compare sees no
    more than that. A session is the revision of a member record. It is negative once its lease has ended.
    """

    record: OwnershipRecord
    version: int
    sessions: tuple[int, ...]
    target: str

    def session(self, name: str | None) -> int | None:
        """Return the session of a member that is there, else None."""
        there = 0 if name is None else self.sessions[IDS.index(name)]
        return there if there > 0 else None

    def with_session(self, index: int, session: int) -> "Store":
        """Return the same with another session of one member."""
        sessions = list(self.sessions)
        sessions[index] = session
        return self._replace(sessions=tuple(sessions))


class Token(NamedTuple):
    """The right under which something is written: an epoch, and the session that was granted it."""

    epoch: int
    session: int


class Request(NamedTuple):
    """A commit on its way: the state it must find (None: absent), and the ownership record that it writes."""

    act: Act
    when: tuple[tuple[str, int | None], ...]
    record: OwnershipRecord


class Landed(NamedTuple):
    """A commit that the store has answered, while the reply is on its way; `version` 0: it was refused."""

    request: Request
    version: int


class Process(NamedTuple):
    """A process: its session as far as it knows, its machine, and its surroundings.

    `hold` is the token of the work that it has begun and not ended. `view` is the state at its last look, kept as long
    as the process may act on it again. `waits` is the commit with the reply it waits for.
    """

    me: OwnSession | None = None
    machine: HandOver = HandOver()
    hold: Token | None = None
    view: Store | None = None
    waits: Request | Landed | None = None


def of_process(process: Process) -> tuple[int, int]:
    """Return the epochs that a process may still serve or write under without news, and the session it writes under."""
    waits = process.waits.request if isinstance(process.waits, Landed) else process.waits
    epochs = {process.view and process.view.record.epoch, waits and waits.record.epoch}
    hold = process.hold or Token(0, 0)
    return sum(1 << each for each in {*epochs, hold.epoch} if each), hold.session


def of_store(store: Store) -> tuple[int, int]:
    """Return the epoch that a store grants."""
    return 1 << store.record.epoch, 0


class Numbers(Generic[Part]):
    """Values and their numbers: each value once, in order of arrival; `facts` holds the consequences of each.

    Facts are the epochs that it names, as bits, and the session that it writes under (0: none).
    """

    def __init__(self, first: Part, about: Callable[[Part], tuple[int, int]] = lambda _: (0, 0)) -> None:
        self.of: list[Part] = [first]
        self.facts = [about(first)]
        self._about = about
        self._number: dict[Part, int] = {first: 0}

    def __call__(self, value: Part) -> int:
        """Return the number of a value."""
        number = self._number.setdefault(value, len(self.of))
        if number == len(self.of):
            self.of.append(value)
            self.facts.append(self._about(value))
        return number
