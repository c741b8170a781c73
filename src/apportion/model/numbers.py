"""Numbers: the check of whole numbers that callers pass."""

from apportion.errors import InvalidInput


def check_int(name: str, value: object, least: int, most: int | None = None, *, hint: str) -> None:
    """Raise `InvalidInput` for a value below `least` or above `most`, for a bool, and for a value that is no int."""
    if type(value) is not int or value < least or (most is not None and value > most):
        expected = f"an int of at least {least}" if most is None else f"an int in {least} .. {most}"
        raise InvalidInput(name, value, expected, hint)
