"""The effects of task functions: in a transaction of the caller, or with an entry in the idempotency log."""
