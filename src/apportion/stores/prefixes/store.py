"""Prefix store: one handle of several stores, each of which keeps the names with one prefix.

Promises: all keys of a name are in one store, with all promises of that store. A lease is one lease with the same id in
every store. When one store ends the lease, the next renewal ends the lease in the others.
Refuses: a commit, a scan or a watch over two stores, and revisions that compare between names of different stores.
Costs: a grant, renewal or revocation asks every store. So leases are kept only while all stores answer: after a time to
live without a reply of one store, a renewal ends the lease in the others. Scans, commits and watches ask one store, and
go on while another is away. Members of groups use the store of their group's name alone (`url_by_prefix`).
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TypeVar

from apportion.errors import ApportionError, InvalidInput, StoreClosed
from apportion.runtime.clock import Clock
from apportion.runtime.endings import or_undo
from apportion.runtime.simulated import clock_here
from apportion.stores import api
from apportion.stores.catalog import connect
from apportion.stores.prefixes.names import NamePrefixes, checked_urls
from apportion.stores.requests import Space, checked_lease, checked_leases, checked_ttl, lease_id

Reply = TypeVar("Reply")
_NAME = "the store by prefix"
_SPACE = Space("names")  # checks requests as each store does


async def by_prefix(
    urls: Mapping[str, str], *, needs: Collection[api.Need] = (), clock: Clock | None = None
) -> "PrefixStore":
    """Connect to several stores, in the running event loop; each keeps the names with one prefix.

    - `urls`: the URL of a store for each prefix of names. The longest prefix of a name wins. The prefix "" is needed.
      A slash at the end of a prefix stands for the end of the name.
    - `needs`: the guarantees that every store must have.
    - `clock`: the clock of the machine unless a test passes its own.

        store = await stores.by_prefix({"": "etcd://a:2379", "events": "etcd://b:2379"})

    Raises `InvalidInput` or `UnknownOption` for a mapping without "", for a prefix that no name can have, for an
    invalid URL, and if two prefixes have the same store. Then it raises the errors of `connect`, also if only one of
    the stores does not answer; none stays open.
    """
    checked_urls(urls)
    opened = dict[str, api.CoordinationStore]()
    async with AsyncExitStack() as stack:
        for prefix, url in urls.items():
            opened[prefix] = await connect(url, needs=needs, clock=clock)
            stack.push_async_callback(opened[prefix].close)
        stack.pop_all()
    return PrefixStore(opened, clock)


class PrefixStore(api.CoordinationStore):
    """One handle of several stores, by the prefix of the names in each. It closes them when it is closed."""

    def __init__(self, stores: Mapping[str, api.CoordinationStore], clock: Clock | None = None) -> None:
        self._stores = dict(stores)
        self._names = NamePrefixes(stores)
        self._clock = clock or clock_here()
        self._pid, self._is_closed = os.getpid(), False
        self._granted: dict[
            int, tuple[float, float]
        ] = {}  # lease: time to live, and its end unless all stores renew it

    async def scan(self, prefix: str) -> api.Scan:
        """See `CoordinationStore`. `InvalidInput` for a prefix of keys in several stores."""
        return await self._of_keys_under(prefix).scan(prefix)

    async def commit(
        self, *, when: Sequence[api.Compare], puts: Sequence[api.Put] = (), deletes: Sequence[str] = ()
    ) -> api.Outcome:
        """See `CoordinationStore`. `InvalidInput` for keys in several stores."""
        request = _SPACE.request(when, puts, deletes, self.capabilities())
        first: dict[str, str] = {}
        for key, _ in request.compares:
            first.setdefault(self._names.of_key(_SPACE.text(key)), _SPACE.text(key))
        if len(first) > 1:
            hint = "A commit is never split: make one per store, or give both names one prefix."
            raise InvalidInput("keys of a commit", " and ".join(first.values()), "keys in one store", hint)
        (prefix,) = first
        return await self._stores[prefix].commit(when=when, puts=puts, deletes=deletes)

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[api.StoreChange, None]:
        """See `CoordinationStore`. `InvalidInput` for a prefix of keys in several stores."""
        async with aclosing(self._of_keys_under(prefix).watch(prefix, after=after)) as changes:
            async for change in changes:
                yield change

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> api.Lease:
        """See `CoordinationStore`. Every store must answer."""
        self._require_open()
        checked_ttl(ttl_seconds, self.capabilities())
        given, sent = checked_lease(lease) or lease_id(), self._clock.elapsed()
        async with or_undo(lambda: self._end([given])):
            granted = [await each.grant(ttl_seconds=ttl_seconds, lease=given) for each in self._stores.values()]
        ttl_seconds = min(each.ttl_seconds for each in granted)
        self._granted = {each: known for each, known in self._granted.items() if known[1] > sent}
        self._granted[given] = ttl_seconds, sent + ttl_seconds
        return api.Lease(id=given, ttl_seconds=ttl_seconds)

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`. Every store must answer. A lease that one store has ended is ended in all others.

        A lease of this handle that was not renewed in every store for its time to live is ended too.
        """
        self._require_open()
        wanted, sent = checked_leases(leases), self._clock.elapsed()
        replies, errors = await self._asked(lambda store: store.renew(wanted))
        if not replies:
            raise errors[0]
        alive = frozenset(wanted).intersection(*replies)
        if errors:
            alive = frozenset(each for each in alive if self._granted.get(each, (0.0, sent + 1))[1] > sent)
        await self._end(frozenset[int]().union(*replies) - alive)
        if errors and (alive or not wanted):
            raise errors[0]
        for lease in alive & self._granted.keys():
            ttl_seconds, _ = self._granted[lease]
            self._granted[lease] = ttl_seconds, sent + ttl_seconds
        return alive

    async def revoke(self, lease: int) -> None:
        """See `CoordinationStore`. One commit per store. In a store that does not answer, the lease ends by itself."""
        self._require_open()
        checked_leases([lease])
        self._granted.pop(lease, None)
        _, errors = await self._asked(partial(_revoked, lease=lease))
        for error in errors:
            raise error

    def capabilities(self) -> api.Capabilities:
        """See `CoordinationStore`. A guarantee of all stores is promised, and the narrowest of their limits."""
        each = [store.capabilities() for store in self._stores.values()]
        return api.Capabilities(
            linearizable=all(able.linearizable for able in each),
            durable=all(able.durable for able in each),
            fencing=all(able.fencing for able in each),
            gapless_watch=all(able.gapless_watch for able in each),
            multi_host=all(able.multi_host for able in each),
            restore_seen=all(able.restore_seen for able in each),
            one_revision=len(each) == 1 and each[0].one_revision,
            watch_delay_seconds=max(able.watch_delay_seconds for able in each),
            lease_end="store" if all(able.lease_end == "store" for able in each) else "reaper",
            min_ttl_seconds=max(able.min_ttl_seconds for able in each),
            max_ttl_seconds=min(able.max_ttl_seconds for able in each),
            max_operations=min(able.max_operations for able in each),
            max_value_bytes=min(able.max_value_bytes for able in each),
            max_commit_bytes=min(able.max_commit_bytes for able in each),
        )

    async def close(self) -> None:
        """See `CoordinationStore`. Every store is closed, also if one of them raises."""
        self._is_closed = True
        async with AsyncExitStack() as stack:
            for each in self._stores.values():
                stack.push_async_callback(each.close)

    def _require_open(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosed(_NAME, "it belongs to the parent of this forked process")
        if self._is_closed:
            raise StoreClosed(_NAME)

    def _of_keys_under(self, prefix: str) -> api.CoordinationStore:
        _SPACE.span(prefix)
        found = self._names.of_keys_under(prefix)
        if len(found) > 1:
            listed = ", ".join(map(repr, sorted(found)))
            expected = f"a prefix of keys in one store, but its keys are in those of {listed}"
            raise InvalidInput("prefix", prefix, expected, "Pass a prefix with a whole name, or ask each store.")
        (place,) = found
        return self._stores[place]

    async def _end(self, leases: Iterable[int]) -> None:
        """End leases in all stores that answer. In the others they end by themselves."""
        for lease in leases:
            self._granted.pop(lease, None)
            await self._asked(partial(_revoked, lease=lease))

    async def _asked(
        self, ask: Callable[[api.CoordinationStore], Awaitable[Reply]]
    ) -> tuple[list[Reply], list[ApportionError]]:
        """Ask all stores at once; return the replies and the errors."""
        replies, errors = list[Reply](), list[ApportionError]()
        for each in await asyncio.gather(*map(ask, self._stores.values()), return_exceptions=True):
            if isinstance(each, ApportionError):
                errors.append(each)
            elif isinstance(each, BaseException):
                raise each
            else:
                replies.append(each)
        return replies, errors


async def _revoked(store: api.CoordinationStore, *, lease: int) -> None:
    await store.revoke(lease)
