"""The transactions that a memory store does not have."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from apportion.errors import NotPromised
from apportion.stores.task_api import Insertion, TaskStatement, TaskTransactions
from apportion.stores.task_values import NewTask, Receipt


class NoTransactions(TaskTransactions):
    """Refuses each call: no other library can write into the memory of this process."""

    dialect = ""

    def __init__(self, name: str) -> None:
        self._refusal = NotPromised(name, "transactions of handlers", able=("postgresql", "sqlite"))

    def begin(self) -> AbstractContextManager[Any]:
        raise self._refusal

    def completion(self, _: Receipt) -> TaskStatement:
        raise self._refusal

    def outcome(self, _: Receipt, __: bytes) -> TaskStatement:
        raise self._refusal

    def place(self) -> TaskStatement:
        raise self._refusal

    def require_here(self, _: Sequence[Any]) -> None:
        raise self._refusal

    def insertion(self, _: Sequence[NewTask]) -> Insertion:
        raise self._refusal
