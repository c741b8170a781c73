"""Handles: objects that depend on the threads and connections of one process, and mean nothing in another.

Refuses: to be pickled or copied; the error names the alternative. Plain values beside them, as tokens, can be sent.
"""

from typing import NoReturn

from apportion.errors import InvalidInput


class Handle:
    """An object that belongs to one process. `InvalidInput` when it is pickled or copied."""

    def __reduce__(self) -> NoReturn:
        hint = "Send the URL and the names, and open another there; tokens and numbers of partitions may be sent."
        raise InvalidInput("what is pickled or copied", type(self).__name__, "a plain value, not a handle", hint)
