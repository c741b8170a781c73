"""A staggered start: 1 000 simulated members come one after another; how many partitions move, by how many targets.

The members are records under the real controller, no processes: so many views fit no machine. What a target gives is
taken at once. Moves go from one live owner to another: the first claims are none.
"""

from apportion.groups.controller.controller import Controller
from apportion.groups.log import log
from apportion.groups.opening import Options
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, encoded
from apportion.groups.view.view import View
from apportion.stores import Item, Put, Scan
from bench.goal import at_most
from bench.row import Row

MEMBERS, PARTITIONS, PAUSE_SECONDS, LOOK_SECONDS = 1_000, 100_000, 0.05, 0.25
MOVES, TARGETS = at_most(1.5, "x partitions"), at_most(12, "targets")


def rows() -> list[Row]:
    """Start all members, and wait until the last target."""
    start = _Start()
    now, count = 0.0, 0
    while count < MEMBERS or not start.is_final:
        if count < MEMBERS:
            start.join(f"worker-{count:04}", now)
            count += 1
        start.look(now)
        now += PAUSE_SECONDS if count < MEMBERS else LOOK_SECONDS
    ratio = start.moves / PARTITIONS
    what = f"{MEMBERS} simulated members, one every {1000 * PAUSE_SECONDS:.0f} ms, {PARTITIONS} partitions"
    shown = f"{ratio:.2f} x, all levelled {now - MEMBERS * PAUSE_SECONDS:.1f} s after the last"
    return [
        Row(name=f"{what}: moves", value=ratio, shown=shown, goal=str(MOVES), met=MOVES.is_met(ratio)),
        Row(
            name=f"{what}: targets",
            value=start.targets,
            shown=f"{start.targets}",
            goal=str(TARGETS),
            met=TARGETS.is_met(start.targets),
        ),
    ]


class _Start:
    """The records of a group that starts."""

    def __init__(self) -> None:
        self.moves = self.targets = 0
        self._keys = GroupKeys(group="bench")
        group, member = GroupRecord(partitions=PARTITIONS), MemberRecord(nonce="")
        self._view = View(self._keys, group)
        options = Options(group="bench", record=group, member_id="worker-0000", member=member)
        self._controller = Controller(self._view, options, log)
        self._revision = 0
        self._sessions: dict[str | None, int] = {}

    @property
    def is_final(self) -> bool:
        """Whether the target is the last one for the members so far."""
        target = self._view.target
        return target is not None and bool(target.digest) and {*target.owners} == {*self._sessions}

    def join(self, name: str, now: float) -> None:
        """Let a member come."""
        self._write([Put(key=self._keys.member(name), value=encoded(MemberRecord(nonce=name)), lease=1)], now)
        self._sessions[name] = self._revision

    def look(self, now: float) -> None:
        """Let the controller act, and the members follow its targets."""
        while (write := self._controller.look(now)) is not None:
            self._write([write.put], now)
            self._controller.answered(True, now)
            if write.target is not None:
                self.targets += 1
                self._follow(write.target.owners, now)

    def _follow(self, owners: tuple[str | None, ...], now: float) -> None:
        puts = []
        for partition, owner in enumerate(owners):
            record = self._view.owned(partition).ownership
            if record.owner != owner:
                self.moves += record.owner is not None
                after = OwnershipRecord(owner=owner, session=self._sessions[owner], epoch=record.epoch + 1)
                puts.append(Put(key=self._keys.own(partition), value=encoded(after)))
        self._write(puts, now)

    def _write(self, puts: list[Put], now: float) -> None:
        self._revision += 1
        if not self._view.revision:
            items = tuple(Item(key=put.key, value=put.value, revision=self._revision, lease=put.lease) for put in puts)
            self._view.load(Scan(items=items, revision=self._revision, incarnation=1), now)
        self._view.wrote(puts, self._revision, now)
