"""Speed: the time that a store takes for each request, and its promises at the time of the connection.

Promises: the measurement leaves nothing behind. It uses a namespace of its own, and deletes its keys.
"""

import time
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from secrets import token_hex
from statistics import median
from typing import TypeVar

from apportion.errors import StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.stores.api import Absent, Capabilities, Committed, CoordinationStore, Outcome, Put, Unchanged
from apportion.stores.catalog import get
from apportion.stores.url import StoreUrl

TRIES = 5
_TTL_SECONDS = 10.0
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Measured:
    """The promises of a store at the time of the connection, and the median milliseconds of each request."""

    capabilities: Capabilities
    milliseconds: dict[str, float]


async def measured(url: StoreUrl) -> Measured:
    """Measure requests in a namespace that no one else uses. Errors are those of the store."""
    elsewhere = replace(url, namespace=f"doctor-{token_hex(8)}")
    store = await get(url.scheme).connect(elsewhere, SystemClock())
    try:
        return Measured(store.capabilities(), await _milliseconds(store, str(url)))
    finally:
        await store.close()


async def _milliseconds(store: CoordinationStore, name: str) -> dict[str, float]:
    scans, commits, renewals = [], [], []
    lease = await store.grant(ttl_seconds=_TTL_SECONDS)
    try:
        for _ in range(TRIES):
            _, taken = await _timed(store.scan(""))
            scans.append(taken)
            _, taken = await _timed(store.renew([lease.id]))
            renewals.append(taken)
            put = Put(key="try", value=bytes(100), lease=lease.id)
            written, taken = await _timed(store.commit(when=[Absent(key="try")], puts=[put]))
            commits.append(taken)
            compare = Unchanged(key="try", revision=_revision(written, name))
            _revision(await store.commit(when=[compare], deletes=["try"]), name)
    finally:
        await store.revoke(lease.id)  # this also deletes the key, if it is still there
    return {"scan": median(scans), "commit": median(commits), "renew": median(renewals)}


async def _timed(asked: Awaitable[Reply]) -> tuple[Reply, float]:
    started = time.perf_counter()
    reply = await asked
    return reply, 1000 * (time.perf_counter() - started)


def _revision(outcome: Outcome, store: str) -> int:
    if not isinstance(outcome, Committed):
        raise StoreUnavailable(store, f"a trial commit was answered by {type(outcome).__name__}")
    return outcome.revision
