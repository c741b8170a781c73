"""Who gets which partition: pure functions from a topology (and what was before) to an assignment."""

from apportion.balance.slots import slots

__all__ = ["slots"]
