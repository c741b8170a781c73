"""Steps: the small acts that cases repeat on a store, each a few lines of `commit`."""

from collections.abc import Sequence

from apportion.sim.conformance.expect import committed
from apportion.stores import Absent, Committed, CoordinationStore, Item, Put, Unchanged


async def make(store: CoordinationStore, *keys: str, value: bytes = b"", lease: int | None = None) -> int:
    """Make keys that were absent, in one commit; return its revision."""
    puts = [Put(key=key, value=value, lease=lease) for key in keys]
    return committed(await store.commit(when=[Absent(key=key) for key in keys], puts=puts))


async def rewrite(store: CoordinationStore, key: str, revision: int, value: bytes, *, lease: int | None = None) -> int:
    """Write a key that is unchanged since `revision`; return the new revision."""
    put = Put(key=key, value=value, lease=lease)
    return committed(await store.commit(when=[Unchanged(key=key, revision=revision)], puts=[put]))


async def delete(store: CoordinationStore, key: str, revision: int) -> int:
    """Delete a key that is unchanged since `revision`; return the revision of the delete."""
    return committed(await store.commit(when=[Unchanged(key=key, revision=revision)], deletes=[key]))


async def item(store: CoordinationStore, key: str) -> Item | None:
    """Return the item of a key, or None."""
    found = await store.scan(key)
    return next((each for each in found.items if each.key == key), None)


async def keys(store: CoordinationStore, prefix: str = "") -> list[str]:
    """Return the keys under a prefix."""
    return [each.key for each in (await store.scan(prefix)).items]


async def increment(store: CoordinationStore, key: str, times: int) -> None:
    """Raise the number under a key, while others do the same."""
    while times:
        found = await item(store, key)
        put = Put(key=key, value=str(int(found.value if found else b"0") + 1).encode())
        compare = Unchanged(key=key, revision=found.revision) if found else Absent(key=key)
        times -= isinstance(await store.commit(when=[compare], puts=[put]), Committed)


async def fill(store: CoordinationStore, keys: Sequence[str], value: bytes) -> None:
    """Make many keys, with as many keys per commit as the store allows."""
    able = store.capabilities()
    most = min(able.max_operations, able.max_commit_bytes // (len(value) + 2 * 1_100))
    for start in range(0, len(keys), most):
        await make(store, *keys[start : start + most], value=value)
