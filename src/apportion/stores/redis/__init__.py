"""The Redis store: one server, quick, and promising the least."""

from apportion.stores.redis.spec import SPEC

__all__ = ["SPEC"]
