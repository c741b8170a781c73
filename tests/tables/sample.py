"""Parts for tests of published tables: values of every kind, stores that fail at a given call, a dumb reader."""

from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from apportion import Assignment, Ring, Table, Topology
from apportion.errors import StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.stores import Refused, Unknown
from apportion.stores.memory.store import Memory, MemoryStore
from apportion.tables.layout import TableKeys, decode_head, resolved
from tests.worlds import tables, topologies

NAME = "orders"
KEYS = TableKeys(NAME)

numbers = st.integers(1, 2**40)


@st.composite
def assignments(draw):
    """Draw an assignment of few partitions, some without an owner, at times with names, of one of two lengths."""
    topology = draw(topologies)
    topology = Topology(topology.nodes, cluster=draw(st.sampled_from(["", "shop"])), number=draw(numbers))
    count = draw(st.sampled_from([1, 6, 6, 6]))
    row = st.lists(st.integers(0, len(topology) - 1), max_size=3, unique=True).map(tuple)
    rows = tuple(draw(st.lists(row, min_size=count, max_size=count)))
    names = draw(st.sampled_from([None, None, tuple(f"p{place}" for place in range(count))]))
    return Assignment(topology=topology, rows=rows, names=names)


@st.composite
def numbered_tables(draw):
    """Draw a table: over tokens, over bytes, or made of slots."""
    table = draw(tables())
    kind = draw(st.sampled_from(["tokens", "tokens", "bytes", "slots"]))
    topology = Topology(table.topology.nodes, number=draw(numbers))
    if kind == "bytes":
        starts = (b"", *(b"%020d" % start for start in table.starts[1:]))
        return Table(topology=topology, hasher="bytes-order", starts=starts, rows=table.rows)
    if kind == "slots":
        rows = tuple(table.rows[place % len(table.rows)] for place in range(8))
        return Table(topology=topology, hasher="xxh3-64", starts=tuple(n * 2**61 for n in range(8)), rows=rows, slots=8)
    return replace(table, topology=topology)


def same(one, other):
    """Return whether two values are the same, with their epochs: equal topologies may have other numbers."""
    return (one, one.epoch) == (other, other.epoch)


def ring(*ids):
    """Return the table of a ring of these nodes."""
    return Ring(list(ids), vnodes=20).table()


def many(seed):
    """Return an assignment with a snapshot of several small chunks."""
    draw = Random(seed)
    rows = tuple((draw.randrange(5),) for _ in range(2_700))
    return Assignment(topology=Topology([f"node-{number}" for number in range(5)], number=seed), rows=rows)


def memory(incarnation=1):
    """Return a memory that handles share."""
    shared = Memory(SystemClock(), incarnation=incarnation)
    shared.take()
    return shared


def handle(shared):
    """Return a handle on it."""
    return MemoryStore(shared, "test")


async def read(store):
    """Read the newest version the dumb way, always as a whole: its number and value, None when there is none."""
    chunks = {item.key: item.value for item in (await store.scan(KEYS.prefix)).items}
    if KEYS.head not in chunks:
        return None
    head = decode_head(chunks[KEYS.head])
    return head.version, resolved(head, KEYS, chunks)


async def unneeded(store):
    """Return the keys of the name that the newest version does not need."""
    chunks = {item.key: item.value for item in (await store.scan(KEYS.prefix)).items}
    if KEYS.head not in chunks:
        return chunks.keys()
    head = decode_head(chunks[KEYS.head])
    return chunks.keys() - {KEYS.head, *(key for link in head.links for key in KEYS.parts(link))}


class Died(BaseException):
    """The publisher is gone: nothing of it catches that."""


class Failing:
    """A store with a commit number `at`, counted from 1, that goes wrong; `before` is awaited before it."""

    def __init__(self, inner, *, at=0, how="", limits=None, before=None):
        self._inner, self._at, self._how, self._before = inner, at, how, before
        self._limits = limits or {}
        self._late = None
        self.commits = 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def capabilities(self):
        return replace(self._inner.capabilities(), **self._limits)

    async def commit(self, *, when, puts=(), deletes=()):
        limits = self.capabilities()
        sizes = [len(put.key.encode()) + len(put.value) for put in puts]
        assert max(len(when), len(puts) + len(deletes)) <= limits.max_operations
        assert (
            sum(sizes) + sum(len(compare.key) for compare in when) + sum(map(len, deletes)) <= limits.max_commit_bytes
        )
        assert max((len(put.value) for put in puts), default=0) <= limits.max_value_bytes
        self.commits += 1
        if self._late is not None:
            late, self._late = self._late, None
            await self._inner.commit(**late)
        request = {"when": when, "puts": puts, "deletes": deletes}
        if self.commits != self._at:
            return await self._inner.commit(**request)
        if self._before is not None:
            await self._before()
            return await self._inner.commit(**request)
        return await self._fail(request)

    async def _fail(self, request):
        if self._how in ("reply lost", "dies after"):
            await self._inner.commit(**request)
        if self._how == "late":
            self._late = request
        if self._how.startswith("dies"):
            raise Died
        if self._how == "refused":
            return Refused(revision=1)
        if self._how == "unavailable":
            raise StoreUnavailable("the store", "no connection")
        return Unknown(reason="no reply")


HOWS = ("unavailable", "request lost", "reply lost", "late", "refused", "dies before", "dies after")
SMALL = {"max_value_bytes": 700, "max_commit_bytes": 2_000, "max_operations": 5}
