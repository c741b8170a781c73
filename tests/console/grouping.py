"""Groups for the tests of their commands: real members on a SQLite file, and views that never were in a store."""

import asyncio
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta

from apportion.groups.admin.found import Found
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, Target, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.stores import Absent, Committed, Put, Unchanged, connect
from apportion.stores.api import Item, Scan
from apportion.sync import open_group

URL = "sqlite:///work.db"


@contextmanager
def members(folder, *ids, partitions=8, group="mailers", url=None, **options):
    """Within: these members are in a group, and it is settled."""
    with ExitStack() as stack:
        url, options = url or f"sqlite:///{folder}/work.db", {"settle": timedelta(0)} | options
        groups = {
            each: stack.enter_context(open_group(url, group, partitions=partitions, member_id=each, **options))
            for each in ids
        }
        for each in groups.values():
            each.wait_until_settled()
        yield groups


def eventually(is_so, *, seconds=20):
    """Wait until a condition holds, and return what it returned."""
    end = time.monotonic() + seconds
    while not (value := is_so()):
        assert time.monotonic() < end, f"still not so after {seconds} s"
        time.sleep(0.02)
    return value


@asynccontextmanager
async def _store(folder):
    store = await connect(f"sqlite:///{folder}/work.db")
    try:
        yield store
    finally:
        await store.close()


def item_of(folder, key):
    """Return what the store of a folder has under a key, None for nothing."""

    async def read():
        async with _store(folder) as store:
            return next((each for each in (await store.scan(key)).items if each.key == key), None)

    return asyncio.run(read())


def write(folder, key, value):
    """Write a key of the store of a folder, whatever it holds."""

    async def put():
        async with _store(folder) as store:
            found = next((each for each in (await store.scan(key)).items if each.key == key), None)
            when = Absent(key=key) if found is None else Unchanged(key=key, revision=found.revision)
            assert isinstance(await store.commit(when=[when], puts=[Put(key=key, value=value)]), Committed)

    asyncio.run(put())


def delete(folder, key):
    """Delete a key of the store of a folder."""

    async def take():
        async with _store(folder) as store:
            found = next(each for each in (await store.scan(key)).items if each.key == key)
            when = [Unchanged(key=key, revision=found.revision)]
            assert isinstance(await store.commit(when=when, deletes=[key]), Committed)

    asyncio.run(take())


def found(*, partitions=4, there=(), statics=(), drains=(), own=(), target=None, leader=None, **more):
    """Return a group as a store would show it. `there` and `statics` are (id, session, weight), `own` (partition,
    owner, session, deaths), `target` the owners, or a Target.
    """
    keys = GroupKeys(group="mailers")
    items = [_item(keys.member(each), encoded(_record(weight)), session) for each, session, weight in there]
    items += [_item(keys.static(each), encoded(_record(weight)), session) for each, session, weight in statics]
    items += [_item(keys.drain(each), b"drained", 50) for each in drains]
    items += [
        _item(keys.own(partition), encoded(_owned(owner, session, deaths)), 60)
        for partition, owner, session, deaths in own
    ]
    if target is not None:
        given = target if isinstance(target, Target) else Target(generation=3, digest="d", owners=tuple(target))
        items.append(_item(keys.target, encoded_target(given), 55))
    if leader is not None:
        items.append(_item(keys.controller, f"{leader} 1".encode(), 40))
    record = GroupRecord(partitions=partitions, **more)
    view = View(keys, record)
    view.load(Scan(items=tuple(items), revision=100, incarnation=1), 0.0)
    return Found(name="mailers", record=record, record_revision=1, view=view)


def _item(key, value, revision):
    kind = key.split("/")[2]
    lease = 1 if kind in ("member", "drain", "controller") else None
    return Item(key=key, value=value, revision=revision, lease=lease)


def _record(weight):
    return MemberRecord(nonce="n", weight=weight, grace_seconds=60)


def _owned(owner, session, deaths):
    return OwnershipRecord(owner=owner, session=session, epoch=7, ended=tuple(range(70, 70 + deaths)))
