"""Administration of an etcd cluster: its servers, leader, space and rights. The cluster needs no setup.

Source: etcd's maintenance and auth interfaces, in the JSON of its gateway.
"""

import time
from contextlib import aclosing
from shlex import quote

from apportion.errors import ApportionError, StoreDenied, StoreUnavailable
from apportion.stores.administration import Administration, Finding, checked_user, judged
from apportion.stores.api import Capabilities
from apportion.stores.etcd.gateway import Gateway
from apportion.stores.etcd.messages import INCARNATION_KEY, Reply, range_of
from apportion.stores.etcd.origin import Origin, ask, begin, unavailable
from apportion.stores.etcd.store import CAPABILITIES
from apportion.stores.etcd.wire import EtcdNoReply, Rejected, Unreached
from apportion.stores.reaper import Counter
from apportion.stores.url import StoreUrl

_OLDEST = (3, 4)
_USUAL_QUOTA_BYTES = 2 * 1024**3  # of a server without a quota setting
_FULL_RATIO = 0.8
_SLOW_SECONDS = 0.1


class EtcdAdministration(Administration):
    """Administers the cluster of one URL."""

    def __init__(self, url: StoreUrl) -> None:
        self._url = url

    async def inspect(self) -> tuple[Finding, ...]:
        async with aclosing(Gateway(self._url)) as gateway:
            servers = [await _server(gateway, at) for at in range(len(gateway.wire.endpoints))]
            return (*servers, *await _cluster(gateway), _transport(self._url), _limits(CAPABILITIES))

    def upgrade_statements(self) -> tuple[str, ...]:
        """See `Administration`: etcd has no schema."""
        return ()

    async def upgrade(self) -> tuple[int, int]:
        """See `Administration`. etcd has no schema. One request shows whether the cluster can be reached."""
        async with aclosing(Gateway(self._url)) as gateway:
            await ask(gateway, "/v3/kv/range", range_of(INCARNATION_KEY))
        return (1, 1)

    def grants(self, user: str) -> tuple[str, ...]:
        """See `Administration`. etcd has no statements, so these are commands of a shell."""
        role, user = f"apportion-{self._url.namespace}", quote(checked_user(user))
        return (
            f"etcdctl role add {role}",
            f"etcdctl role grant-permission --prefix {role} readwrite {self._url.namespace}/",
            f"etcdctl role grant-permission {role} readwrite '{INCARNATION_KEY.decode()}'",
            f"etcdctl user grant-role {user} {role}",
        )

    async def renewals(self) -> tuple[Counter, ...]:
        return ()

    async def restored(self) -> tuple[int, int]:
        async with aclosing(Gateway(self._url)) as gateway:
            origin = Origin(gateway)
            reply = await ask(gateway, "/v3/kv/range", range_of(INCARNATION_KEY))
            before = origin.read(reply)
            await begin(gateway, before, reply["header"]["cluster_id"])
            await origin.learn()  # if another operator began a life meanwhile, that one counts
        return (0 if before is None else before.incarnation, origin.life.incarnation)


async def _server(gateway: Gateway, at: int) -> Finding:
    """Return the version and revision that one server reports, and the time that it takes to answer."""
    subject = f"server {gateway.wire.endpoints[at].netloc.decode()}"
    began = time.monotonic()
    try:
        version = str((await gateway.visit("/version", None, at)).get("etcdserver", ""))
        reply = await gateway.visit("/v3/kv/range", range_of(INCARNATION_KEY), at)
    except (ApportionError, Rejected, Unreached, EtcdNoReply) as error:
        return Finding(
            subject=subject,
            found=_line(error),
            verdict="error",
            advice="Is the server running, and can this host reach it?",
        )
    seconds = time.monotonic() - began
    found = f"etcd {version or 'of unknown version'}, revision {reply.get('header', {}).get('revision', '?')}, "
    found += f"{seconds * 1000:.1f} ms for two requests"
    if _numbers(version) < _OLDEST:
        return judged(subject, found, "Use etcd 3.4 or later.", verdict="error")
    return judged(subject, found, "Check the disk of the server and the network." if seconds > _SLOW_SECONDS else "")


async def _cluster(gateway: Gateway) -> tuple[Finding, ...]:
    try:
        status = await ask(gateway, "/v3/maintenance/status", {})
        members = await ask(gateway, "/v3/cluster/member/list", {})
        alarms = await gateway.ask("/v3/maintenance/alarm", {"action": "GET"})
    except (StoreDenied, StoreUnavailable, Rejected) as error:
        advice = "Start a majority of the cluster's servers, and check the user of the URL."
        return (Finding(subject="cluster", found=_line(error), verdict="error", advice=advice),)
    return (_leader(status, members), _space(status, alarms), await _rights(gateway))


def _leader(status: Reply, members: Reply) -> Finding:
    listed = members.get("members", [])
    name = next((each.get("name", "") for each in listed if each.get("ID") == status.get("leader")), "")
    found = f"{len(listed)} servers, {f'leader {name}' if name else 'no leader'}"
    if not name:
        return judged("cluster", found, "Start a majority of the cluster's servers.", verdict="error")
    fault = "Run three servers: then the cluster survives the loss of one."
    return judged("cluster", found, fault if len(listed) < 3 else "")


def _space(status: Reply, alarms: Reply) -> Finding:
    size = int(status.get("dbSize", "0"))
    sounded = ", ".join(sorted({each.get("alarm", "") for each in alarms.get("alarms", [])}))
    found = f"{size / 1e6:.1f} MB used{f', alarm {sounded}' if sounded else ''}"
    if sounded:
        advice = "Compact and defragment the cluster, then run: etcdctl alarm disarm"
        return judged("space", found, advice, verdict="error")
    fault = "Compact and defragment the cluster, or raise --quota-backend-bytes."
    return judged("space", found, fault if size > _FULL_RATIO * _USUAL_QUOTA_BYTES else "")


async def _rights(gateway: Gateway) -> Finding:
    """Return whether authentication is on. The server's refusal of an empty login shows this."""
    try:
        await gateway.visit("/v3/auth/authenticate", {"name": "", "password": ""}, gateway.wire.current)
    except Rejected as error:
        if "not enabled" in str(error):
            fault = "Every client that reaches the servers may write. Run: etcdctl auth enable"
            return judged("authentication", "off", fault)
    except (Unreached, EtcdNoReply) as error:
        raise unavailable(gateway, error) from error
    return Finding(subject="authentication", found="on")


def _transport(url: StoreUrl) -> Finding:
    if url.scheme == "etcds":
        return Finding(subject="transport", found="TLS; the server's certificate and name are checked")
    return judged("transport", "without TLS", "Use etcds:// where others can read the traffic.")


def _limits(able: Capabilities) -> Finding:
    found = f"{able.max_operations} operations and {able.max_commit_bytes} bytes per commit, leases of 2 s and more"
    return Finding(subject="limits", found=found)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _line(error: Exception) -> str:
    return error.problem if isinstance(error, ApportionError) else str(error)
