"""Who gets which partition: pure functions from a topology (and what was before) to assignments, and the way there."""

from apportion.balance import scores
from apportion.balance.optimal import optimal
from apportion.balance.schedule import schedule
from apportion.balance.slots import slots
from apportion.balance.verify import Verdict, verify

__all__ = ["Verdict", "optimal", "schedule", "scores", "slots", "verify"]
