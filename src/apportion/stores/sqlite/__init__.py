"""The SQLite store: one file that many processes of one host share."""

from apportion.stores.sqlite.store import SPEC

__all__ = ["SPEC"]
