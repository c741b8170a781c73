"""Handles: objects that depend on the threads and connections of one process, and mean nothing in another.

Refuses: to be pickled or copied; the error names the alternative. Plain values, such as tokens, can be sent.
"""

from typing import NoReturn

from apportion.errors import InvalidInput


class Handle:
    """An object that belongs to one process. `InvalidInput` when it is pickled or copied."""

    def __reduce__(self) -> NoReturn:
        hint = "Send the URL and the names, and open another handle there. Tokens and partition numbers may be sent."
        raise InvalidInput("the value to pickle or copy", type(self).__name__, "a plain value, not a handle", hint)
