"""Guards: checks by which a resource refuses a member that has lost the resource and does not know it yet."""

from apportion.guards.noted import checked, note
from apportion.guards.redis import RedisGuard
from apportion.guards.rule import decide, from_text, to_text
from apportion.guards.sql import SqlGuard

__all__ = ["RedisGuard", "SqlGuard", "checked", "decide", "from_text", "note", "to_text"]
