"""Store guard: a coordination store keeps the newest fencing token of each resource, for callers without a database.

Promises: the rule of all guards. A token passes if it is newer than the kept token, or equal and of the same holder. A
token that passes is kept at that moment, so no older token passes from then on. Checking a token that is already kept
costs one read.
Refuses: to hold the resource while the caller writes. A check protects only until it ends.
"""

import asyncio

from apportion.guards.rule import decide, from_text, to_text
from apportion.model.epoch import FencingToken
from apportion.stores.api import Absent, Committed, CoordinationStore, Need, Put, Unchanged
from apportion.stores.catalog import opened

_KEYS = "guard/"
_NEEDS: tuple[Need, ...] = ("fencing", "gapless_watch", "linearizable")


async def check(url: str, token: FencingToken) -> None:
    """Keep the token in the store of a URL if it may pass; raise `Fenced` if it may not.

    Raises also the errors of `stores.connect`, and `InvalidInput` where no store was made yet.
    """
    to_text(token)  # refuses a token that no guard can keep, before any connection
    async with opened(url, needs=_NEEDS) as store:
        while not await _is_decided(store, token):
            await asyncio.sleep(0)


async def _is_decided(store: CoordinationStore, token: FencingToken) -> bool:
    """Decide by the kept token; False if another check came between, or if the outcome is unknown."""
    key = f"{_KEYS}{token.resource}/"  # the keys of other resources have other prefixes
    item = next((each for each in (await store.scan(key)).items if each.key == key), None)
    kept = None if item is None else from_text(item.value.decode(errors="replace"))
    if decide(kept, token) == kept:
        return True
    compare = Absent(key=key) if item is None else Unchanged(key=key, revision=item.revision)
    outcome = await store.commit(when=[compare], puts=[Put(key=key, value=to_text(token).encode())])
    return isinstance(outcome, Committed)
