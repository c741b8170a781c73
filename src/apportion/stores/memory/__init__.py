"""The memory store: a ledger within one process."""

from apportion.stores.memory.spec import SPEC

__all__ = ["SPEC"]
