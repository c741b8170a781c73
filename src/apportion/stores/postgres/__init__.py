"""The PostgreSQL store: tables of a database that members of several hosts share."""

from apportion.stores.postgres.spec import SPEC

__all__ = ["SPEC"]
