"""Handles: objects that live by the threads and connections of one process, and mean nothing in another.

Refuses: to be pickled or copied, with what to do instead. Plain values beside them, as tokens, travel.
"""

from typing import NoReturn

from apportion.errors import InvalidInput


class Handle:
    """What belongs to one process. `InvalidInput` when it is pickled or copied."""

    def __reduce__(self) -> NoReturn:
        hint = "Send the URL and the names, and open another there; tokens and numbers of partitions may be sent."
        raise InvalidInput("what is pickled or copied", type(self).__name__, "a plain value, not a handle", hint)
