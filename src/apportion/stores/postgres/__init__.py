"""The PostgreSQL store: tables of a database that members of several hosts share."""

from apportion.stores.postgres.store import SPEC

__all__ = ["SPEC"]
