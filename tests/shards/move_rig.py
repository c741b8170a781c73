"""A rig for tests of movers: two shards in memory with one table of rows, their channel, and a store in memory."""

import asyncio
from dataclasses import dataclass, field

from apportion import Assignment, Topology
from apportion.errors import StoreUnavailable
from apportion.guards.rule import decide
from apportion.model.epoch import FencingToken
from apportion.model.topology import Node
from apportion.shards import slot_rows
from apportion.shards.channel import ChannelState
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import Mover
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.limits import MoveLimits
from apportion.shards.slot_rows import SlotRow
from apportion.stores.memory.store import Memory, MemoryStore
from apportion.tables.publisher import Publisher

SET = "world"
SLOTS = 8
GROUP = MoveGroup(move="m1", source="one", target="two", slots=(2, 3))


class Clock:
    def __init__(self):
        self.now = 0.0

    def elapsed(self):
        return self.now


def token(epoch):
    return FencingToken(resource="world.mover", holder=f"mover-{epoch}", incarnation=1, epoch=epoch)


@dataclass
class Base:
    """A database: slot rows, rows (slot, key) -> value, a log of keys, the tokens that it has seen."""

    slots: dict = field(default_factory=dict)
    rows: dict = field(default_factory=dict)
    log: list | None = None
    tokens: dict = field(default_factory=dict)
    is_away: bool = False
    refusal: Exception | None = None
    replies: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self):
        self.replies.set()

    def check(self, token):
        self.answer()
        self.tokens[token.resource] = decide(self.tokens.get(token.resource), token)

    def answer(self):
        if self.refusal is not None:
            raise self.refusal
        if self.is_away:
            raise StoreUnavailable("a shard", "it is away")

    def write(self, slot, key, value, version=None):
        """Write as an application does; False if the shard refuses."""
        row = self.slots.get(slot)
        if not slot_rows.accepts(row, version):
            return False
        self.slots[slot] = slot_rows.written(row)
        self.rows[slot, key] = value
        if self.log is not None:
            self.log.append((slot, key))
        return True


class FakeShard:
    def __init__(self, base):
        self.base = base

    async def guard(self, group, token):
        self.base.check(token)

    async def rows(self, group):
        await asyncio.sleep(0)  # here a cancel arrives
        await self.base.replies.wait()
        self.base.answer()
        return [self.base.slots.get(slot) for slot in group.slots]

    async def change(self, group, change, token):
        self.base.check(token)
        for slot in group.slots:
            row = self.base.slots.get(slot)
            state = None if row is None else row.state
            if state in change.before:
                number = row.number if change.keeps_number and row else change.number
                self.base.slots[slot] = SlotRow(state=change.after, number=number)

    async def clean(self, group, token):
        self.base.check(token)
        gone = [each for each in self.base.rows if each[0] in group.slots and self.moved(each[0])]
        for each in gone[:2]:
            del self.base.rows[each]
        return len(gone[:2])

    def moved(self, slot):
        return self.base.slots[slot].state == "moved"

    async def drop(self, group, token):
        self.base.check(token)
        for slot in group.slots:
            self.base.slots.pop(slot, None)
        self.base.rows = {each: value for each, value in self.base.rows.items() if each[0] not in group.slots}

    async def close(self):
        pass


class FakeChannel:
    """Copies two rows a chunk; `is_stuck` leaves the log as it is."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.copied, self.done, self.verified, self.is_stuck, self.trouble = 0, False, None, False, None
        self.far = 0  # the number of calls of apply after which a fence may begin
        self.readers = 0  # the number of tries to end the capture that fail

    async def check(self, _size):
        pass

    async def state(self, attempt):
        self.source.answer()
        self.target.answer()
        lag = len(self.source.log or ())
        return ChannelState(
            is_captured=self.source.log is not None,
            is_captured_back=self.target.log is not None,
            is_copied=self.done,
            is_near=not self.far,
            is_drained=not lag,
            is_verified=self.verified == attempt,
            copied=self.copied,
            lag=lag,
        )

    async def capture(self, token):
        self.source.check(token)
        self.source.log = self.source.log or []

    async def copy(self, token):
        rows = [each for each in sorted(self.source.rows) if each[0] in GROUP.slots]
        self.target.check(token)
        for each in rows[self.copied : self.copied + 2]:
            self.target.rows[each] = self.source.rows[each]
        self.copied = min(len(rows), self.copied + 2)
        self.done = self.copied == len(rows)

    async def apply(self, token):
        self.target.check(token)
        self.far = max(0, self.far - 1)
        if self.is_stuck:
            return
        for each in self.source.log[:1]:
            if each in self.source.rows:
                self.target.rows[each] = self.source.rows[each]
            else:
                self.target.rows.pop(each, None)
        del self.source.log[:1]

    async def verify(self, attempt, token):
        self.source.check(token)
        if self.trouble:
            raise self.trouble
        self.verified = attempt

    async def uncapture(self, token):
        self.source.check(token)
        if self.readers:
            self.readers -= 1
            raise StoreUnavailable("shard one", "process 7 of dump for 60 s")
        self.source.log = None

    async def close(self):
        pass


class FakeLog:
    """The log that a source keeps; `size` None without a replication slot."""

    def __init__(self, source):
        self.source, self.kept, self.asked, self.gone = source, None, 0, []

    async def size(self):
        self.source.answer()
        self.asked += 1
        return self.kept

    async def let_go(self, token):
        self.source.check(token)
        self.gone.append(token.epoch)
        self.kept = None


class Rig:
    """A set of two shards; a mover's steps are noted, and `at` may do something at one of its stop points."""

    def __init__(self):
        self.clock = Clock()
        self.store = MemoryStore(Memory(self.clock), "default")
        self.one = Base(slots={slot: SlotRow(state="owner") for slot in range(SLOTS)})
        self.two = Base()
        self.one.rows = {(slot, key): 0 for slot in range(SLOTS) for key in range(3)}
        self.channels, self.back = FakeChannel(self.one, self.two), FakeChannel(self.two, self.one)
        self.log = FakeLog(self.one)
        self.nodes = {each: Node(each) for each in ("one", "two")}
        self.labels, self.events, self.at, self.publisher = [], [], {}, Publisher(self.store, SET)

    async def shard(self, shard_id):
        return FakeShard({"one": self.one, "two": self.two}[shard_id])

    async def channel(self, group):
        return self.channels if group.source == "one" else self.back

    async def kept_log(self, group):
        return self.log

    async def found(self):
        topology = Topology(["one"])
        names = tuple(map(str, range(SLOTS)))
        await self.publisher.publish(Assignment(topology=topology, rows=[(0,)] * SLOTS, names=names))

    def reached(self, label):
        self.labels.append(label)
        if label in self.at:
            self.at.pop(label)()

    def mover(self, limits=None):
        return Mover(
            self.store,
            SET,
            self,
            self.nodes,
            clock=self.clock,
            wall=lambda: 1000.0 + self.clock.now,
            reached=self.reached,
            observer=self.events.append,
            limits=limits or MoveLimits(),
        )

    async def owners(self):
        self.publisher = Publisher(self.store, SET)
        table = await self.publisher.newest()
        return [owner for (owner,) in table.preference_lists.values()]

    async def keys(self):
        return [item.key for item in (await self.store.scan(f"shards/{SET}/")).items]


class Killed(Exception):
    pass


def kill():
    raise Killed


async def wish(rig, word):
    """Write a wish into the record of the move."""
    book = MoveBook(rig.store, SET, rig.clock)
    kept = (await book.read()).kept[GROUP.move]
    assert await book.write(kept, kept.entry.wished(word))


async def until(is_so, clock):
    """Let time pass until something is so."""
    async with asyncio.timeout(5):
        while not is_so():
            clock.now += 0.02
            await asyncio.sleep(0.005)


def moved(play, **options):
    """Play a story on a rig whose table is published and whose move is listed."""

    async def main():
        rig = Rig()
        await rig.found()
        await rig.mover().begin(GROUP, **options)
        return rig, await play(rig)

    return asyncio.run(main())
