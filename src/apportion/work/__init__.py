"""Work: tasks that are each done once, by a live worker, whatever dies."""

from apportion.work.budget import GiveUp, Snooze
from apportion.work.call import Call
from apportion.work.current import RunningTask, current_task

__all__ = ["Call", "GiveUp", "RunningTask", "Snooze", "current_task"]
