"""The effects of task functions: in a transaction of the caller, or noted in the idempotency log."""
