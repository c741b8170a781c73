"""Random requests: SQLite, memory and the ledger itself answer each of them alike."""

import asyncio
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import LeaseLost
from apportion.sim.facts import Answered, Asked, Began, Changed, Fact, Granted, Renewed, Revoked
from apportion.sim.invariants.store import Checker
from apportion.stores import Absent, Committed, Event, Item, Put, Refused, StoreChange, Unchanged
from apportion.stores.ledger import Ledger
from apportion.stores.memory.store import CAPABILITIES, Memory, MemoryStore
from apportion.stores.requests import Space
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.shared_file import SharedFile
from apportion.stores.sqlite.store import in_file

KEYS = ["a", "a/1", "a/2", "b", "ä"]
_numbers = count()


class Frozen:
    """A clock that stands: no lease ends by time."""

    def elapsed(self) -> float:
        return 0.0


class LedgerStore:
    """The ledger in the shape of a store, for requests that need no waiting."""

    def __init__(self) -> None:
        self.ledger = Ledger(incarnation=1)
        self._space = Space("apportion")

    async def commit(self, *, when, puts=(), deletes=()):
        revision = self.ledger.commit(self._space.request(when, puts, deletes, CAPABILITIES))
        return Refused(revision=self.ledger.revision) if revision is None else Committed(revision=revision)

    async def grant(self, *, ttl_seconds):
        return self.ledger.grant(ttl_seconds, 0.0)

    async def renew(self, leases):
        return self.ledger.renew(leases, 0.0)

    async def revoke(self, lease):
        self.ledger.end(lease)

    def items(self):
        return {
            key.decode(): (record.value, record.revision, record.lease) for key, record in self.ledger.records.items()
        }

    def changes(self):
        return [
            StoreChange(
                revision=entry.revision,
                events=tuple(
                    Event(key=self._space.text(key), value=record and record.value, lease=record and record.lease)
                    for key, record in entry.records
                ),
            )
            for entry in self.ledger.since(0)
        ]


leases = st.integers(1, 4)
revisions = st.integers(1, 12)
key = st.sampled_from(KEYS)
# The belief about a key: "right" is the ledger's present revision, else a revision, or that the key is absent.
belief = st.one_of(st.just("right"), st.just("right"), st.just("right"), revisions, st.none())
write = st.one_of(st.tuples(st.binary(max_size=3), st.none() | leases), st.just("delete"))
requests = st.one_of(
    st.tuples(st.just("commit"), st.dictionaries(key, st.tuples(belief, write | st.none()), min_size=1, max_size=3)),
    st.tuples(st.just("commit"), st.dictionaries(key, st.tuples(belief, write), min_size=1, max_size=3)),
    st.tuples(st.just("grant"), st.none()),
    st.tuples(st.just("renew"), st.sets(leases)),
    st.tuples(st.just("revoke"), leases),
)


def commit_of(wanted, ledger: Ledger):
    """Turn beliefs into a valid commit: compares, puts, deletes; None when nothing would be written."""
    when, puts, deletes = [], [], []
    for name, (believed, written) in wanted.items():
        record = ledger.records.get(f"apportion/{name}".encode())
        revision = (record and record.revision) if believed == "right" else believed
        when.append(Absent(key=name) if revision is None else Unchanged(key=name, revision=revision))
        if written == "delete" and revision is not None:
            deletes.append(name)
        elif written not in (None, "delete"):
            puts.append(Put(key=name, value=written[0], lease=written[1]))
    return {"when": when, "puts": puts, "deletes": deletes} if puts or deletes else None


async def asked(store, verb, argument):
    """Return the answer of a store, errors included, in words that all stores share."""
    try:
        if verb == "commit":
            return await store.commit(**argument)
        if verb == "grant":
            lease = await store.grant(ttl_seconds=30.0)
            return lease if isinstance(lease, int) else lease.id
        return await (store.renew(argument) if verb == "renew" else store.revoke(argument))
    except LeaseLost as error:
        return str(error)


async def replay(store, changes: int):
    watch = store.watch("", after=0)
    found = [await anext(watch) for _ in range(changes)]
    await watch.aclose()
    return found


async def compare(path: Path, history) -> None:
    clock, dumb = Frozen(), LedgerStore()
    sqlite = await in_file(SharedFile(SqliteFile(path, "sqlite", clock), clock), "apportion")
    stores = [sqlite, MemoryStore(Memory(clock), "apportion")]
    for verb, wanted in history:
        argument = commit_of(wanted, dumb.ledger) if verb == "commit" else wanted
        if verb == "commit" and argument is None:
            continue
        expected = await asked(dumb, verb, argument)
        for store in stores:
            assert expected == await asked(store, verb, argument)
            scan = await store.scan("")
            assert dumb.ledger.revision == scan.revision
            assert dumb.items() == {
                f"apportion/{item.key}": (item.value, item.revision, item.lease) for item in scan.items
            }
    for store in stores:
        assert dumb.changes() == await replay(store, len(dumb.changes()))
        await store.close()


@pytest.mark.slow
@settings(max_examples=200)
@given(history=st.lists(requests, max_size=30))
def test_every_store_answers_as_the_ledger_does(tmp_path_factory, history):
    folder = tmp_path_factory.getbasetemp()
    path = folder / f"history-{next(_numbers)}.db"
    with patch("apportion.stores.sqlite.ledger.lease_id", count(1).__next__):  # the ledger counts them
        asyncio.run(compare(path, history))
    for file in folder.glob(path.name + "*"):
        file.unlink()


async def facts_of(history) -> list[Fact]:
    """Return the effect of a history on the ledger, as the simulated world would write it down."""
    dumb, facts = LedgerStore(), [Began(at=0.0, incarnation=1, revision=0)]
    for call, (verb, wanted) in enumerate(history):
        at, argument = call / 1000, commit_of(wanted, dumb.ledger) if verb == "commit" else wanted
        if argument is None and verb == "commit":
            continue
        if verb == "commit":
            said = {name: tuple(each) for name, each in argument.items()}
            facts.append(Asked(at=at, call=call, process="a", incarnation=1, **said))
        if verb == "revoke":
            facts.append(Revoked(at=at, incarnation=1, lease=argument))
        before = dumb.ledger.revision
        answer = await asked(dumb, verb, argument)
        facts += [changed(at, entry) for entry in dumb.ledger.since(before)]
        if verb == "commit":
            facts.append(Answered(at=at, call=call, outcome=None if isinstance(answer, str) else answer))
        elif verb == "grant":
            facts.append(Granted(at=at, incarnation=1, lease=answer, ttl_seconds=30.0))
        elif verb == "renew":
            facts.append(Renewed(at=at, since=at, incarnation=1, asked=frozenset(argument), alive=answer))
        else:
            facts.append(Revoked(at=at, incarnation=1, lease=argument, done=True))
    return facts


def changed(at, entry) -> Changed:
    named = [(key.decode().removeprefix("apportion/"), record) for key, record in entry.records]
    items = tuple(
        (key, record and Item(key=key, value=record.value, revision=record.revision, lease=record.lease))
        for key, record in named
    )
    return Changed(at=at, incarnation=1, revision=entry.revision, items=items)


@settings(max_examples=200)
@given(history=st.lists(requests, max_size=30))
@pytest.mark.slow
def test_no_history_breaks_an_invariant_of_the_simulated_world(history):
    checker = Checker()
    for fact in asyncio.run(facts_of(history)):
        checker.add(fact)
    assert [] == checker.violations
