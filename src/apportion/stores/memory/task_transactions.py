"""The transactions that a memory store does not have."""

from contextlib import AbstractContextManager
from typing import Any

from apportion.errors import NotPromised
from apportion.stores.task_api import TaskStatement, TaskTransactions
from apportion.stores.task_values import Receipt


class NoTransactions(TaskTransactions):
    """Refuses each call: no other library can write into the memory of this process."""

    def __init__(self, name: str) -> None:
        self._refusal = NotPromised(name, "transactions of handlers", able=("postgresql", "sqlite"))

    def begin(self) -> AbstractContextManager[Any]:
        raise self._refusal

    def completion(self, _: Receipt) -> TaskStatement:
        raise self._refusal
