"""The memory store: a ledger within one process."""
