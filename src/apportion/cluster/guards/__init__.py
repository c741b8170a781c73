"""Guards: what a resource needs to refuse a member that lost it and does not know yet."""

from apportion.cluster.guards.noted import checked, note
from apportion.cluster.guards.redis import RedisGuard
from apportion.cluster.guards.rule import decide, from_text, to_text
from apportion.cluster.guards.sql import SqlGuard

__all__ = ["RedisGuard", "SqlGuard", "checked", "decide", "from_text", "note", "to_text"]
