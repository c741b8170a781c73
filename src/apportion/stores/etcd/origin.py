"""Origin: reads the life of an etcd cluster, checks answers against it, and begins another life.

A life is an incarnation in a cluster. One key outside all namespaces holds it. There is another life if the incarnation
differs, another cluster answers, or the revision is older than before. A log that is too short for the revision also
shows another life.

The log of a cluster has one entry for each revision, and further entries. So the surplus (entries less revisions) of a
cluster never falls, no matter which server answers. A snapshot keeps the revision but not the log. So a restore lowers
the surplus, by the length of the log at the time of the snapshot. The surplus shows a restore even if the cluster keeps
its id, as with `etcdctl snapshot restore`. docs/stores/etcd.md names the restores that this check misses.
"""

import asyncio
import time
from collections.abc import Mapping

from apportion.errors import StoreDenied, StoreUnavailable, StoreWentBack
from apportion.stores.etcd.gateway import Gateway
from apportion.stores.etcd.messages import (
    INCARNATION_KEY,
    RangeReply,
    Reply,
    StoreLife,
    StreamMessage,
    range_of,
    rebirth_of,
)
from apportion.stores.etcd.wire import EtcdNoReply, Rejected, Unreached

GRANTS = "Run the commands of: apportion store grants URL --user NAME"
_TRIES = 5
# A server reads its revision and the length of its log one after the other. Some entries may come in between.
_RACE_ENTRIES = 32
_MEASUREMENTS = 3


class Origin:
    """The life of the store that a handle has accepted, and the newest revision that it has seen there."""

    life: StoreLife
    seen: int
    looked_at: int

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.life = StoreLife.of(0, "", None)
        self.seen = 0
        self.looked_at = -1  # the number of the connection at the last look
        self._proven_on = -1

    async def learn(self) -> None:
        """Read the life of the store, and accept it.

        Before that, begin another life if there is none, or if the data came from another cluster or a snapshot.
        """
        for _ in range(_TRIES):
            connects = self._gateway.connects
            reply = await ask(self._gateway, "/v3/kv/range", range_of(INCARNATION_KEY))
            life, cluster = self.read(reply), reply.get("header", {}).get("cluster_id", "")
            if await self.stands(life, cluster) and life is not None:
                self.accept(life, revision_of(reply))
                self.looked_at = connects
                return
        raise StoreUnavailable(self._gateway.name, "other processes keep changing its incarnation")

    async def stands(self, life: StoreLife | None, cluster: str) -> bool:
        """Return whether a life that was read is the life of this cluster. If not, begin another life."""
        if life is not None and life.cluster == cluster and not await self._is_copy(life):
            return True
        await begin(self._gateway, life, cluster)
        return False

    def read(self, reply: RangeReply) -> StoreLife | None:
        """Return the life that the key of the incarnation holds."""
        try:
            return StoreLife.read(reply)
        except ValueError as error:
            reason = f"the key {INCARNATION_KEY.decode()} holds a value that apportion did not write"
            raise StoreUnavailable(self._gateway.name, reason, "Nothing was changed. Delete that key.") from error

    def accept(self, life: StoreLife, revision: int) -> None:
        """Check all answers against this life from now on."""
        self.life, self.seen = life, revision

    async def look(self, known: StoreLife | None = None) -> int:
        """Look at the store: read its life and return its revision; `StoreWentBack` if the life has changed.

        `known` is the life that the caller knew at its request. A scan may have accepted another life since then.
        """
        known, floor, connects = known or self.life, self.seen, self._gateway.connects
        revision = self._same(await self._asked(is_first=False), floor, known)
        if not await self.stands(known, known.cluster):
            raise StoreWentBack(
                self._gateway.name, f"incarnation {known.incarnation}", "it was restored from a snapshot"
            )
        self.looked_at = connects
        return revision

    async def look_first(self, known: StoreLife) -> None:
        """As `look`, but on the connection for renewals, and without a check of the log."""
        floor = self.seen
        self._same(await self._asked(is_first=True), floor, known)

    async def look_since(self, since: float, known: StoreLife) -> int:
        """As `look`; a look that another handle of this process began after `since` serves as well."""
        wire = self._gateway.wire
        async with wire.looking:
            began, reply = wire.looked
            if began < since or revision_of(reply) < self.seen:
                return await self.look(known)
        return self._same(reply, self.seen, known)

    async def look_at_new(self, known: StoreLife) -> int:
        """Look at the store if a connection was opened since the last look; return the number of the connection."""
        while self.looked_at != self._gateway.connects:
            await self.look(known)
        return self.looked_at

    async def _asked(self, *, is_first: bool) -> Reply:
        began = asyncio.get_running_loop().time()
        reply = await ask(self._gateway, "/v3/kv/range", range_of(INCARNATION_KEY), is_first=is_first)
        self._gateway.wire.looked = began, reply
        return reply

    def _same(self, reply: Reply, floor: int, known: StoreLife) -> int:
        revision = self.same(reply, floor)
        self.same_life(self.read(reply), known)
        return revision

    def same_cluster(self, reply: Reply | StreamMessage) -> None:
        """Raise `StoreWentBack` if another cluster has answered."""
        cluster = reply.get("header", {}).get("cluster_id", "")
        if cluster != self.life.cluster:
            raise StoreWentBack(self._gateway.name, f"cluster {self.life.cluster}", f"its cluster is {cluster}")

    def same(self, reply: Reply, floor: int) -> int:
        """Return the revision of an answer; `StoreWentBack` if it is below `floor`, or if another cluster answered."""
        self.same_cluster(reply)
        revision = revision_of(reply)
        if revision < floor:
            raise StoreWentBack(self._gateway.name, f"revision {floor}", f"its revision is {revision}")
        self.seen = max(self.seen, revision)
        return revision

    def same_life(self, life: StoreLife | None, known: StoreLife) -> None:
        """Raise `StoreWentBack` if a life differs from the known one."""
        if life != known:
            found = "it has no incarnation" if life is None else f"its incarnation is {life.incarnation}"
            raise StoreWentBack(self._gateway.name, f"incarnation {known.incarnation}", found)

    async def _is_copy(self, life: StoreLife) -> bool:
        """Return whether the cluster's log is too short for this life. The check runs once per connection."""
        if self._proven_on == self._gateway.connects or life.surplus is None:
            return False
        for _ in range(_MEASUREMENTS):
            connects = self._gateway.connects
            surplus = await surplus_of(self._gateway)
            if surplus is None or surplus >= life.surplus - _RACE_ENTRIES:
                self._proven_on = connects
                return False
        return True


async def begin(gateway: Gateway, before: StoreLife | None, cluster: str) -> None:
    """Begin another life of this cluster, unless another process has begun one."""
    milliseconds = time.time_ns() // 1_000_000
    incarnation = milliseconds if before is None else max(before.incarnation + 1, milliseconds)
    after = StoreLife.of(incarnation, cluster, await surplus_of(gateway))
    # The transaction requires the life `before`. So a repeated request begins no second life.
    await ask(gateway, "/v3/kv/txn", rebirth_of(before, after))


async def surplus_of(gateway: Gateway) -> int | None:
    """Return the length of the current server's log less its revision; None if the server does not report them."""
    try:
        status = await gateway.visit("/v3/maintenance/status", {}, gateway.wire.current)
    except Rejected:
        return None
    except (Unreached, EtcdNoReply) as error:
        raise unavailable(gateway, error) from error
    entries = int(status.get("raftAppliedIndex", "0"))
    return entries - revision_of(status) if entries else None


def revision_of(reply: Reply) -> int:
    """Return the revision of the store at the time of an answer."""
    return int(reply.get("header", {}).get("revision", "0"))


async def ask(gateway: Gateway, path: str, body: Mapping[str, object], *, is_first: bool = False) -> Reply:
    """As `Gateway.ask`, but a refusal raises `StoreDenied` or `StoreUnavailable`."""
    try:
        reply = await gateway.ask(path, body, is_first=is_first)
    except Rejected as error:
        raise unavailable(gateway, error) from error
    if "header" not in reply:
        raise StoreUnavailable(gateway.name, "the server there is not etcd 3.4 or later")
    return reply


def unavailable(gateway: Gateway, error: Rejected | EtcdNoReply | Unreached) -> StoreDenied | StoreUnavailable:
    """Return the error for a refusal or a failed request, with advice."""
    if "permission denied" in str(error):
        return StoreDenied(gateway.name, str(error), GRANTS)
    if "user name is empty" in str(error):
        return StoreDenied(gateway.name, str(error), "Write etcd://user:password@host: the server requires a user.")
    if "space exceeded" in str(error):
        hint = "Nothing was changed. Compact and defragment the cluster, then run: etcdctl alarm disarm"
        return StoreUnavailable(gateway.name, str(error), hint)
    return StoreUnavailable(gateway.name, str(error))
