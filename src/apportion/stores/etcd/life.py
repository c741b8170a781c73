"""Which life of an etcd cluster this is: read it, hold answers against it, begin another.

A life is an incarnation in a cluster, kept under one key outside all namespaces. It is another when the number differs,
when another cluster answers, or when the cluster shows an older revision than it showed before.
"""

import time
from collections.abc import Mapping

from apportion.errors import StoreDenied, StoreUnavailable, StoreWentBack
from apportion.stores.etcd.gateway import Gateway, NoReply, Rejected, Unreached
from apportion.stores.etcd.messages import INCARNATION_KEY, Life, RangeReply, Reply, Result, range_of, rebirth_of

GRANTS = "Run the commands of: apportion store grants URL --user NAME"
_TRIES = 5


class Origin:
    """What a handle knows of the store it began with."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.life = Life.of(0, "")
        self.seen = 0
        self._looked_at = -1

    async def learn(self) -> None:
        """Accept what is found; begin a life where there is none, or where it is that of another cluster."""
        for _ in range(_TRIES):
            connects = self._gateway.connects
            reply = await ask(self._gateway, "/v3/kv/range", range_of(INCARNATION_KEY))
            life, cluster = self.read(reply), reply.get("header", {}).get("cluster_id", "")
            if life is not None and life.cluster == cluster:
                self.accept(life, revision_of(reply))
                self._looked_at = connects
                return
            await begin(self._gateway, life, cluster)
        raise StoreUnavailable(self._gateway.name, "its incarnation is changed by others all the time")

    def read(self, reply: RangeReply) -> Life | None:
        """Return what the key of the incarnation holds."""
        try:
            return Life.read(reply)
        except ValueError as error:
            reason = f"the key {INCARNATION_KEY.decode()} holds what we did not write"
            raise StoreUnavailable(self._gateway.name, reason, "Nothing was changed. Delete that key.") from error

    def accept(self, life: Life, revision: int) -> None:
        """Hold what comes against this life from now on."""
        self.life, self.seen = life, revision

    async def look(self, known: Life | None = None) -> int:
        """Look at the store and return its revision; `StoreWentBack` when it is another than it was.

        `known` is the life that the caller knew when it asked; meanwhile a scan may have accepted another.
        """
        known, floor, connects = known or self.life, self.seen, self._gateway.connects
        reply = await ask(self._gateway, "/v3/kv/range", range_of(INCARNATION_KEY))
        revision = self.same(reply, floor)
        self.same_life(self.read(reply), known)
        self._looked_at = connects
        return revision

    async def look_at_new(self, known: Life) -> None:
        """Look at the store if a connection was opened since it was last looked at."""
        while self._looked_at != self._gateway.connects:
            await self.look(known)

    def same_cluster(self, reply: Reply | Result) -> None:
        """Raise `StoreWentBack` when another cluster has answered."""
        cluster = reply.get("header", {}).get("cluster_id", "")
        if cluster != self.life.cluster:
            raise StoreWentBack(self._gateway.name, f"cluster {self.life.cluster}", f"its cluster is {cluster}")

    def same(self, reply: Reply, floor: int) -> int:
        """Return the revision of an answer, if it can be of this store after it was at `floor`."""
        self.same_cluster(reply)
        revision = revision_of(reply)
        if revision < floor:
            raise StoreWentBack(self._gateway.name, f"revision {floor}", f"its revision is {revision}")
        self.seen = max(self.seen, revision)
        return revision

    def same_life(self, life: Life | None, known: Life) -> None:
        """Raise `StoreWentBack` when this is another life than the known one."""
        if life != known:
            found = "it has no incarnation" if life is None else f"its incarnation is {life.incarnation}"
            raise StoreWentBack(self._gateway.name, f"incarnation {known.incarnation}", found)


async def begin(gateway: Gateway, before: Life | None, cluster: str) -> None:
    """Begin another life of this cluster, unless somebody else has."""
    milliseconds = time.time_ns() // 1_000_000
    after = Life.of(milliseconds if before is None else max(before.incarnation + 1, milliseconds), cluster)
    # It compares what was before, so that asking twice begins one life.
    await ask(gateway, "/v3/kv/txn", rebirth_of(before, after))


def revision_of(reply: Reply) -> int:
    """Return the revision that the store was at when it answered."""
    return int(reply.get("header", {}).get("revision", "0"))


async def ask(gateway: Gateway, path: str, body: Mapping[str, object]) -> Reply:
    """Ask what may be asked twice; a refusal is `StoreDenied` or `StoreUnavailable`."""
    try:
        reply = await gateway.ask(path, body)
    except Rejected as error:
        raise unavailable(gateway, error) from error
    if "header" not in reply:
        raise StoreUnavailable(gateway.name, "what answers there is no etcd 3.4 or later")
    return reply


def unavailable(gateway: Gateway, error: Rejected | NoReply | Unreached) -> StoreDenied | StoreUnavailable:
    """Say what to do about an answer that is no."""
    if "permission denied" in str(error):
        return StoreDenied(gateway.name, str(error), GRANTS)
    if "user name is empty" in str(error):
        return StoreDenied(gateway.name, str(error), "Write etcd://user:password@host: it asks who we are.")
    if "space exceeded" in str(error):
        hint = "Nothing was changed. Compact and defragment it, then: etcdctl alarm disarm"
        return StoreUnavailable(gateway.name, str(error), hint)
    return StoreUnavailable(gateway.name, str(error))
