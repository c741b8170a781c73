"""Lanes of keys: the tasks of one key run in order, one at a time, in the worker that owns the lane of the key."""
