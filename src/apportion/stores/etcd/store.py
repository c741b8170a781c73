"""One handle of an etcd cluster: each commit is a transaction of etcd, and each lease is a lease of etcd.

Promises: all promises of etcd, and so every promise of a `CoordinationStore`. In addition, each commit compares the
store's incarnation. A commit uses a connection only after that connection has read the incarnation.
Refuses: servers before 3.4; leases too short for the cluster's elections (under 2 s with etcd's default settings).
Costs: one request per commit or page of a scan, two per grant. A renewal of leases costs one request per 16 leases,
and one more to read the incarnation.
Source: etcd's API guarantees; the header `Grpc-Metadata-hasleader` does the work of `WithRequireLeader` in Go.
"""

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import ceil

from apportion.errors import ApportionError, InvalidInput, LeaseLost, StoreUnavailable
from apportion.runtime.clock import Clock
from apportion.runtime.endings import or_undo
from apportion.stores import api
from apportion.stores.etcd.gateway import Gateway, message_of, pause_seconds
from apportion.stores.etcd.messages import (
    READ_LIFE,
    KeyValue,
    Message,
    Reply,
    StoreLife,
    encoded,
    items_of,
    range_of,
    transaction_of,
)
from apportion.stores.etcd.origin import Origin, ask, revision_of, unavailable
from apportion.stores.etcd.watch import Feed
from apportion.stores.etcd.wire import EtcdNoReply, Rejected, Unreached
from apportion.stores.requests import CommitRequest, Space, checked_after, checked_lease, checked_leases, checked_ttl
from apportion.stores.url import StoreUrl

CAPABILITIES = api.Capabilities(
    linearizable=True,
    durable=True,
    fencing=True,
    gapless_watch=True,
    multi_host=True,
    restore_seen=True,  # after a snapshot, but not after a copy of a data directory
    watch_delay_seconds=0.1,  # the pause of the server between two rounds of old changes
    lease_end="store",
    min_ttl_seconds=2.0,  # 1.5 election time-outs of 1 s, rounded up; a server may have longer ones
    max_operations=127,  # the server allows 128, and one is for the incarnation
    # The server allows 1.5 MiB. The difference is for overhead: each of 127 keys may occur a second time, in its
    # delete, and may take 64 bytes more.
    max_commit_bytes=1_400_000,
)
_FIRST_PAGE = 1_000
# For each page, a server counts all keys in the rest of the range. So a page is as large as can be sent in a moment.
_LARGEST_PAGE = 50_000
_PAGE_BYTES = 8_000_000
_PATIENCE_PER_PAGE = 0.25
_TRIES = 8
# The gateway reads the first 512 bytes of a request, and begins to answer. It sometimes loses the bytes after them.
# So a request renews few leases.
_RENEWALS_PER_REQUEST = 16


class EtcdStore(api.CoordinationStore):
    """One handle of an etcd cluster, within a namespace."""

    def __init__(self, gateway: Gateway, namespace: str, clock: Clock) -> None:
        self._gateway, self._wire = gateway, gateway.wire
        self._origin = Origin(gateway)
        self._space = Space(namespace)
        self._clock = clock
        self._limits = CAPABILITIES

    @classmethod
    async def connected(cls, url: StoreUrl, clock: Clock) -> "EtcdStore":
        """Return a handle that has read the state of the store."""
        gateway = Gateway(url)
        store = cls(gateway, url.namespace, clock)
        async with or_undo(gateway.aclose):
            await store._origin.learn()
        return store

    async def scan(self, prefix: str) -> api.Scan:
        """See `CoordinationStore`. A page has at most 50 000 keys or 8 MB; all pages are of one revision."""
        start, end = self._space.span(prefix)
        for _ in range(_TRIES):
            body = {"success": [READ_LIFE, {"request_range": range_of(start, end, limit=_FIRST_PAGE)}]}
            reply = await ask(self._gateway, "/v3/kv/txn", body)
            about, found = (each["response_range"] for each in reply["responses"])
            revision, cluster = revision_of(reply), reply["header"]["cluster_id"]
            life = self._origin.read(about)
            if not await self._origin.stands(life, cluster) or life is None:
                continue
            pairs = found.get("kvs", ())
            items = list(items_of(pairs, self._space))
            if found.get("more") and not await self._add_pages(items, pairs, end, revision):
                continue  # this revision was compacted in the meantime
            self._origin.accept(life, revision)
            return api.Scan(items=tuple(items), revision=revision, incarnation=life.incarnation)
        raise StoreUnavailable(self._gateway.name, "it was compacted faster than it could be read")

    async def _add_pages(self, items: list[api.Item], pairs: Sequence[KeyValue], end: bytes, revision: int) -> bool:
        """Add the rest of a range at a revision; return False if that revision was compacted.

        The server should send each page within a quarter of `patience_seconds`, the longest silence on the wire. The
        time of one page sizes the next page.
        """
        more, limit = True, _FIRST_PAGE
        clock = asyncio.get_running_loop().time
        while more:
            start, began = b64decode(pairs[-1]["key"]) + b"\0", clock()
            try:
                page = await self._gateway.ask("/v3/kv/range", range_of(start, end, limit=limit, revision=revision))
            except Rejected as error:
                if "compacted" in str(error):
                    return False
                raise unavailable(self._gateway, error) from error
            pairs = page.get("kvs", pairs)
            items += items_of(pairs, self._space)
            more = page.get("more", False)
            in_time = limit * self._wire.patience_seconds * _PATIENCE_PER_PAGE / (clock() - began)
            limit = max(1, min(_page(items), int(in_time)))
        return True

    async def commit(
        self, *, when: Sequence[api.Compare], puts: Sequence[api.Put] = (), deletes: Sequence[str] = ()
    ) -> api.Outcome:
        """See `CoordinationStore`. One request."""
        request = self._space.request(when, puts, deletes, self._limits)
        life = self._origin.life  # known to the caller; a scan may accept another life while this call waits
        failed: Unreached | None = None
        for count in range(_TRIES):
            looked_at = await self._origin.look_at_new(life)
            floor = self._origin.seen
            try:
                reply = await self._gateway.tell("/v3/kv/txn", transaction_of(request, life), on=looked_at)
            except Unreached as error:
                failed = error
                await asyncio.sleep(0 if count < 2 else pause_seconds(count))
            except EtcdNoReply as error:
                return api.Unknown(reason=str(error))
            except Rejected as error:
                raise await self._refusal(error, request) from error
            else:
                return self._outcome(reply, floor, life)
        raise StoreUnavailable(self._gateway.name, str(failed)) from failed

    def _outcome(self, reply: Reply, floor: int, life: StoreLife) -> api.Outcome:
        if "header" not in reply:
            return api.Unknown(reason="the answer is not from etcd")
        revision = self._origin.same(reply, floor)
        if reply.get("succeeded"):
            return api.Committed(revision=revision)
        self._origin.same_life(self._origin.read(reply["responses"][0]["response_range"]), life)
        return api.Refused(revision=revision)

    async def _refusal(self, error: Rejected, request: CommitRequest) -> ApportionError:
        said = str(error)
        if "lease not found" in said:
            leases = sorted({lease for _, _, lease in request.puts if lease is not None})
            return LeaseLost(await self._lost(leases))
        if "too large" in said or "too many operations" in said or "larger than max" in said:
            hint = "Raise --max-txn-ops and --max-request-bytes of the servers to etcd's defaults."
            return InvalidInput("commit", said, "a commit within the limits of the servers", hint)
        return unavailable(self._gateway, error)

    async def _lost(self, leases: Sequence[int]) -> int:
        for lease in leases[:-1]:
            left = await ask(self._gateway, "/v3/lease/timetolive", {"ID": str(lease)})
            if int(left.get("TTL", "0")) < 0:
                return lease
        return leases[-1]

    async def watch(self, prefix: str, *, after: int) -> AsyncGenerator[api.StoreChange, None]:
        """See `CoordinationStore`. Each watch has a connection of its own."""
        self._gateway.alive()
        feed = Feed(
            self._gateway, self._space, prefix, after=checked_after(after), origin=self._origin, clock=self._clock
        )
        async with aclosing(feed):
            while (change := await feed.next()) is not None:
                yield change

    async def grant(self, *, ttl_seconds: float, lease: int | None = None) -> api.Lease:
        """See `CoordinationStore`. The time to live is rounded up to whole seconds."""
        wanted, life = ceil(checked_ttl(ttl_seconds, self._limits)), self._origin.life
        lease, granted = await self._granted(wanted, checked_lease(lease))
        if granted > wanted:
            await self.revoke(lease)
            self._limits = replace(self._limits, min_ttl_seconds=float(granted))
            checked_ttl(ttl_seconds, self._limits)
        self._wire.granted(granted)
        await self._origin.look(life)
        return api.Lease(id=lease, ttl_seconds=float(granted))

    async def _granted(self, wanted: int, lease: int | None) -> tuple[int, int]:
        """Return the id and the time to live of a new lease, or of the live lease with the given id."""
        try:
            reply = await ask(self._gateway, "/v3/lease/grant", {"TTL": str(wanted), "ID": str(lease or 0)})
        except StoreUnavailable as error:
            if lease is None or "lease already exists" not in error.reason:
                raise
            return lease, wanted
        return int(reply["ID"]), int(reply["TTL"])

    async def renew(self, leases: Collection[int]) -> frozenset[int]:
        """See `CoordinationStore`. One request per 16 leases, and one more to read the incarnation."""
        wanted, life = checked_leases(leases), self._origin.life
        self._gateway.alive()
        parts = (wanted[at : at + _RENEWALS_PER_REQUEST] for at in range(0, len(wanted), _RENEWALS_PER_REQUEST))
        alive = [await self._renewed(part) for part in parts]
        await self._origin.look_first(life)
        return frozenset().union(*alive)

    async def _renewed(self, leases: Iterable[int]) -> set[int]:
        left, alive, problem = set(leases), set[int](), "no answer"
        for count in range(_TRIES):
            at = self._wire.current
            for message in await self._kept_alive(sorted(left)):
                result = message.get("result", {})
                if "ID" not in result:
                    problem = message.get("error", {}).get("message", problem)
                    self._gateway.expire_token()
                    self._wire.leave(at)
                    continue
                self._origin.same_cluster(result)
                left.discard(int(result["ID"]))
                if int(result.get("TTL", "0")) > 0:
                    alive.add(int(result["ID"]))
            if not left:
                return alive
            await asyncio.sleep(pause_seconds(count))
        raise StoreUnavailable(self._gateway.name, f"it did not answer for {len(left)} leases: {problem}")

    async def _kept_alive(self, leases: Iterable[int]) -> list[Message]:
        body = b"".join(encoded({"ID": str(lease)}) for lease in leases)
        try:
            lines = await self._gateway.ask_lines("/v3/lease/keepalive", body, self._wire.renewals)
            return [message_of(line) for line in lines.splitlines()]
        except Rejected as error:
            raise unavailable(self._gateway, error) from error
        except EtcdNoReply:
            return []

    async def revoke(self, lease: int) -> None:
        for each in checked_leases([lease]):
            try:
                await self._gateway.ask("/v3/lease/revoke", {"ID": str(each)})
            except Rejected as error:
                if "lease not found" not in str(error):
                    raise unavailable(self._gateway, error) from error

    def capabilities(self) -> api.Capabilities:
        return self._limits

    async def close(self) -> None:
        await self._gateway.aclose()


def _page(items: Sequence[api.Item]) -> int:
    """Return the number of keys of the next page, from the size of the last keys."""
    last = items[-_FIRST_PAGE:]
    size = sum(len(each.key) + len(each.value) for each in last) + 1
    return max(1, min(_LARGEST_PAGE, _PAGE_BYTES * len(last) // size))
