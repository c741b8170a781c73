"""The SQLite store: one file that many processes of one host share."""

from apportion.stores.sqlite.spec import SPEC

__all__ = ["SPEC"]
