"""The Redis store: one server, fast, with the fewest promises of all stores."""

from apportion.stores.redis.spec import SPEC

__all__ = ["SPEC"]
