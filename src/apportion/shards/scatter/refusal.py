"""Refusal: the reason why shards cannot answer a statement together."""

from typing import NoReturn


class Unanswerable(Exception):
    """A statement has no answer that could be made of those of the shards. The text is the reason."""


def refuse(reason: str) -> NoReturn:
    """Refuse a statement, for a reason in words."""
    raise Unanswerable(" ".join(reason.split()))
