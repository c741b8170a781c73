"""Redis administration: the check of a server's settings, and advice for wrong ones."""

from contextlib import aclosing

from apportion.errors import ApportionError
from apportion.stores.administration import Administration, Finding, checked_user, judged
from apportion.stores.reaper import Counter
from apportion.stores.redis import scripts
from apportion.stores.redis.link import RedisLink, Reply, parsed_info, refusals
from apportion.stores.url import StoreUrl

_COMMANDS = "+eval +evalsha +info +select +xread +hgetall"
_INSIDE_SCRIPTS = (
    "+time +hget +hset +hdel +hincrby +hexists +hmget +zadd +zrem +zrangebylex +zrangebyscore +xadd +xdel +xlen +xrange"
)


class RedisAdministration(Administration):
    """See `Administration`; each call has a link of its own."""

    def __init__(self, url: StoreUrl) -> None:
        self._url = url

    async def inspect(self) -> tuple[Finding, ...]:
        link = RedisLink(self._url, greets=False)
        try:
            facts = parsed_info(await link.ask("INFO"))
            refused = refusals(link.name, facts)
            if refused:
                return (*map(_refused, refused), _eviction(facts))
            stored = await link.ask("HGET", scripts.NAMES[0], "format")
        except ApportionError as error:
            return (_refused(error),)
        finally:
            await link.aclose()
        server = Finding(subject="server", found=f"Redis {facts['redis_version']}")
        return (server, _format(stored), _durability(facts), _eviction(facts))

    def upgrade_statements(self) -> tuple[str, ...]:
        """See `Administration`. There is no schema: the first connect makes the missing parts."""
        return ()

    async def upgrade(self) -> tuple[int, int]:
        async with aclosing(RedisLink(self._url, greets=False)) as link:
            before = int(await link.ask("HGET", scripts.NAMES[0], "format") or 0)
        await self._run(scripts.ENTER)
        return before, scripts.FORMAT

    def grants(self, user: str) -> tuple[str, ...]:
        checked_user(user)
        return (f"ACL SETUSER {user} on resetkeys ~apportion:* resetchannels -@all {_COMMANDS} {_INSIDE_SCRIPTS}",)

    async def renewals(self) -> tuple[Counter, ...]:
        return ()

    async def restored(self) -> tuple[int, int]:
        _, before, now = await self._run(scripts.RESTORED)
        return before, now

    async def _run(self, script: str) -> Reply:
        async with aclosing(RedisLink(self._url)) as link:
            return await link.run(script)


def _refused(error: ApportionError) -> Finding:
    return Finding(subject="server", found=error.problem, verdict="error", advice=error.hint)


def _format(stored: bytes | None) -> Finding:
    if stored is None:
        return Finding(subject="format", found="nothing stored yet")
    fault = "" if stored == b"%d" % scripts.FORMAT else "Use the release of apportion that wrote this format."
    return judged("format", f"format {stored.decode(errors='replace')}", fault, verdict="error")


def _durability(facts: dict[str, str]) -> Finding:
    if facts.get("aof_enabled") != "1":
        advice = "Set appendonly yes. Without it, members join again after a restart, and tables are published again."
        found = "snapshots only: a killed server loses all changes since the last snapshot"
        return Finding(subject="durability", found=found, verdict="warning", advice=advice)
    if facts.get("aof_last_write_status", "ok") != "ok":
        advice = "Free space on the server's disk: the server refuses writes."
        found = "the last write to the append-only file failed"
        return Finding(subject="durability", found=found, verdict="error", advice=advice)
    return Finding(subject="durability", found="append-only file; a fail-over may still lose acknowledged commits")


def _eviction(facts: dict[str, str]) -> Finding:
    policy, limit = facts.get("maxmemory_policy", "unknown"), facts.get("maxmemory", "0")
    found = f"{policy}, maxmemory {limit} bytes" if limit != "0" else f"{policy}, no maxmemory"
    fault = "" if policy == "noeviction" else "Set maxmemory-policy noeviction."
    return judged("eviction", found, fault, verdict="error" if policy.startswith("allkeys") else "warning")
