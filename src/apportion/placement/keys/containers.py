"""Containers of many keys: lists and other iterables, Arrow arrays, and buffers such as NumPy's.

Promises: one rule for every placement and for the native twin, with the same errors. No import of NumPy, pyarrow or
pandas. A list is read as it was when the call began, and every other iterable is collected first.
Refuses: a single str or bytes. It refuses nulls, and Arrow types that are not keys, such as dictionary-encoded types.
It refuses arrays of floats, bools or dates, and of more than one dimension.
No other thread may write to a buffer during a read: the answers would belong to the old bytes, the new bytes or a
mixture.
Source: PEP 3118 for buffers; `placement.keys.arrow` for Arrow.
"""

from collections.abc import Callable, Iterable, Iterator
from re import compile as pattern
from struct import pack
from typing import Literal, NoReturn, TypeAlias

from apportion.errors import InvalidInput
from apportion.model.plan import Key
from apportion.placement.keys.limits import MAX_ROWS

Source: TypeAlias = list[Key] | memoryview | tuple[object, object] | object
"""Keys, a buffer, the two capsules of an Arrow array (schema and array), or the capsule of an Arrow stream."""

_Order: TypeAlias = Literal["little", "big"]
_Reader: TypeAlias = Callable[[bytes], Key]

_NATIVE_ORDER: _Order = "little" if pack("=H", 1)[0] else "big"
_FORMAT = pattern(r"(?P<order>[@=<>!]?)(?P<count>[0-9]{0,9})(?P<kind>[a-zA-Z?])")
_SIGNED, _UNSIGNED = frozenset("bhilqn"), frozenset("BHILQN")
_OBJECTS = {"object", "Object"}


def keys_in(keys: Iterable[Key]) -> Iterable[Key]:
    """Return the single keys of a container, in order, to be read once; raise `InvalidInput` for another value.

    >>> from array import array
    >>> list(keys_in(array("h", [3, -1]))), keys_in({"a": 1})
    ([3, -1], ['a'])
    """
    source = source_of(keys)
    if isinstance(source, list):
        return source
    if isinstance(source, memoryview):
        return _keys_of_buffer(source)
    from apportion.placement.keys.arrow import keys_of  # noqa: PLC0415 - only callers with Arrow arrays pay for it

    return keys_of(source)


def source_of(keys: Iterable[Key]) -> Source:
    """Return the source to read the keys from. The native twin calls this too, so there is one order of attempts."""
    if isinstance(keys, (str, bytes, bytearray)) or _is_raw(keys):
        refuse_single(keys)
    # An array of Python objects is read object by object: its exporter might convert them, or export their addresses.
    if str(getattr(keys, "dtype", "")) not in _OBJECTS:
        source = _exported(keys)
        if source is None:
            source = _viewed(keys)
        if source is not None:
            return source
    if not isinstance(keys, Iterable):
        refuse_single(keys)
    return list(keys)


def refuse_single(keys: object) -> NoReturn:
    """Raise for one key, or for a value without keys, where many keys were expected."""
    raise InvalidInput("keys", keys, "an iterable of keys", "Put a single key in a list, or route() it.")


def refuse_changed(before: int, now: int) -> NoReturn:
    """Raise for a list that another thread made longer or shorter during the read."""
    raise InvalidInput("length of keys", now, f"{before}, as when the call began", "Pass a copy: list(keys).")


def key_at(view: memoryview, place: int) -> Key:
    """Return one key of a buffer; raise `InvalidInput` if its type holds no keys."""
    return _reader_of(view)(view[place : place + 1].tobytes())


def _is_raw(keys: object) -> bool:
    return isinstance(keys, memoryview) and isinstance(keys.obj, (bytes, bytearray)) and keys.itemsize == 1


def _exported(keys: object) -> Source | None:
    """Return the capsules of an object that exports itself as Arrow; None if it does not, or cannot."""
    for name, many in (("__arrow_c_array__", 2), ("__arrow_c_stream__", 1)):
        if hasattr(type(keys), name):
            try:
                capsules: object = getattr(keys, name)()
            except (ImportError, RuntimeError, TypeError, ValueError):
                return None  # pandas without pyarrow, or columns of mixed types: they can still be iterated over
            given = capsules if isinstance(capsules, tuple) else (capsules,)
            if len(given) != many or any(type(each).__name__ != "PyCapsule" for each in given):
                raise InvalidInput(f"result of {name}", capsules, "capsules", "Its producer is at fault.")
            return capsules
    return None


def _viewed(keys: Iterable[Key]) -> memoryview | None:
    """Return a view of a buffer; None if the object is not a buffer or, as with dates, shows no format."""
    try:
        view = memoryview(keys)  # type: ignore[arg-type]
    except (BufferError, TypeError, ValueError):
        return None
    if view.ndim != 1 or view.suboffsets:
        expected = "one dimension, in one piece of memory"
        raise InvalidInput("dimensions of keys", view.ndim, expected, "Flatten it: keys.ravel().")
    _reader_of(view)
    if len(view) > MAX_ROWS:
        raise InvalidInput("length of keys", len(view), f"at most {MAX_ROWS}", "Pass it in parts.")
    return view


def _keys_of_buffer(view: memoryview) -> Iterator[Key]:
    read, data, size = _reader_of(view), view.tobytes(), view.itemsize
    return (read(data[place * size : (place + 1) * size]) for place in range(len(view)))


def _reader_of(view: memoryview) -> _Reader:
    """Return the function that makes a key from the bytes of an item; `InvalidInput` if the format has no keys."""
    found = _FORMAT.fullmatch(view.format)
    if found is not None:
        order: _Order = {"<": "little", ">": "big", "!": "big"}.get(found["order"], _NATIVE_ORDER)  # type: ignore[assignment]
        kind, count = found["kind"], int(found["count"] or 1)
        if kind in _SIGNED | _UNSIGNED and not found["count"]:
            return lambda data: int.from_bytes(data, order, signed=kind in _SIGNED)
        if kind == "s" and view.itemsize == count:
            return lambda data: data.rstrip(b"\0")
        if kind == "w" and view.itemsize == 4 * count:
            return lambda data: _text(data, order)
    hint = "Convert them, say with astype(int) or astype(str), whichever is meant; or pass a list of keys."
    raise InvalidInput("buffer format of keys", view.format, "integers, fixed-width bytes or fixed-width text", hint)


def _text(data: bytes, order: _Order) -> str:
    try:
        return data.decode("utf-32-le" if order == "little" else "utf-32-be", "surrogatepass").rstrip("\0")
    except UnicodeDecodeError as error:
        number = int.from_bytes(data[error.start : error.start + 4], order)
        hint = "The array holds no text; name its type with view() or astype()."
        raise InvalidInput("character of a key", hex(number), "one of Unicode, below 0x110000", hint) from error
