"""Enqueue: makes a call from the name of a task function and JSON, without the program that has the function.

Promises: the arguments are a JSON object of at most 1 MiB. The worker compares them with the parameters of the
function. A task with arguments that do not fit becomes dead at once.
"""

import json

from apportion.errors import InvalidInput
from apportion.work.call import MOST_BYTES, Call
from apportion.work.function import is_task_name

_HINT = """Write the arguments by name: '{"to": "ann"}'"""


def written_call(name: str, arguments: str) -> Call:
    """Return the call of a task function; `arguments` is a JSON object with the arguments by name.

    >>> written_call("send", '{"to": "ann"}').arguments
    b'{"to":"ann"}'
    """
    if not is_task_name(name):
        raise InvalidInput("name of the task", name, "the name of a task function", "Write the name of the function.")
    try:
        values = json.loads(arguments, parse_constant=_refuse)
        data = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidInput(f"arguments of {name}", arguments, f"JSON ({error})", _HINT) from error
    if not isinstance(values, dict):
        raise InvalidInput(f"arguments of {name}", arguments, "a JSON object", _HINT)
    if len(data) > MOST_BYTES:
        hint = "Store the data, and pass its name."
        raise InvalidInput(f"arguments of {name}", f"{len(data)} bytes", f"at most {MOST_BYTES} bytes", hint)
    return Call(name=name, arguments=data)


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
