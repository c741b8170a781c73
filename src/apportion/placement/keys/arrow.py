"""Keys in Arrow arrays, read through the C data interface: of pyarrow, polars, pandas and other exporters.

Promises: utf8, binary, their large and view forms, and integers. Slices and chunks are honoured. Memory is read only
where the array declares it. Every structure taken from a stream is released, once.
Refuses: nulls, naming the first; dictionaries, extension types and all other types that are not keys; impossible
lengths and offsets. The interface does not tell the size of buffers, and text is not checked to be UTF-8. So an array
with a false description of these cannot be detected. Text that is not UTF-8 is read as a key of bytes.
Source: Arrow's "C data interface", "C stream interface" and "PyCapsule interface", format 1.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64, c_void_p, string_at
from itertools import chain
from typing import ClassVar, NamedTuple, NoReturn

from apportion.errors import InvalidInput
from apportion.model.plan import Key
from apportion.placement.keys.limits import MAX_KEY_BYTES, MAX_ROWS

_INTEGERS = {
    "c": ctypes.c_int8, "C": ctypes.c_uint8, "s": ctypes.c_int16, "S": ctypes.c_uint16,
    "i": c_int32, "I": ctypes.c_uint32, "l": c_int64, "L": ctypes.c_uint64,
}  # fmt: skip
_OFFSETS = {"u": c_int32, "z": c_int32, "U": c_int64, "Z": c_int64}
_VIEWS = {"vu", "vz"}
_MOST_BUFFERS = 1 << 20
_TEXTS = {"u", "U", "vu"}
_NULLS = "n"
_EXTENSION = b"ARROW:extension:name"
_INLINE_BYTES = 12
_FAULTY = "Its producer is at fault; pass to_pylist() or the like instead."


class _Extent(NamedTuple):
    """The place of a key's bytes: address and size of a buffer, and in it the first byte and the end."""

    address: int
    size: int
    begin: int
    end: int


class _Schema(Structure):
    _fields_: ClassVar = [
        ("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64), ("n_children", c_int64),
        ("children", c_void_p), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p),
    ]  # fmt: skip
    format: bytes | None
    metadata: int | None
    dictionary: int | None
    release: int | None


class _Array(Structure):
    _fields_: ClassVar = [
        ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64),
        ("n_children", c_int64), ("buffers", c_void_p), ("children", c_void_p), ("dictionary", c_void_p),
        ("release", c_void_p), ("private_data", c_void_p),
    ]  # fmt: skip
    length: int
    null_count: int
    offset: int
    n_buffers: int
    buffers: int | None
    release: int | None


class _Stream(Structure):
    _fields_: ClassVar = [
        ("get_schema", c_void_p), ("get_next", c_void_p), ("get_last_error", c_void_p), ("release", c_void_p),
        ("private_data", c_void_p),
    ]  # fmt: skip
    get_schema: int
    get_next: int
    get_last_error: int
    release: int | None


def keys_of(source: object) -> Iterator[Key]:
    """Yield the keys of an array (the capsules of its schema and its values), or of the capsule of a stream."""
    with ExitStack() as taken:
        schema, arrays = _of_array(*source) if isinstance(source, tuple) else _of_stream(source, taken)
        kind = check_type(*_described(schema))
        start, chunks = 0, []
        for array in arrays:
            chunks.append(_chunk(kind, array, start))
            start += array.length
        yield from chain.from_iterable(chunks)


def check_type(kind: str, encoded: bool, extension: str | None) -> str:
    """Return a format that has keys as values; raise `InvalidInput` for any other."""
    hint = "Cast it to text, binary or integers, whichever is meant. If it is a table, pass one column."
    if encoded:
        hint = "Decode it: cast() it to its values' type, in pandas astype(str)."
        raise InvalidInput("Arrow type of keys", "dictionary-encoded", "plain text, binary or integers", hint)
    if extension is not None or kind not in {_NULLS, *_INTEGERS, *_OFFSETS, *_VIEWS}:
        raise InvalidInput("Arrow type of keys", extension or kind, "text, binary or integers", hint)
    return kind


def refuse_null(place: int) -> NoReturn:
    """Raise for a null at a place."""
    raise InvalidInput(f"key at index {place}", None, "a value", "Drop the nulls, or fill them.")


def refuse_array(what: str, value: int, expected: str) -> NoReturn:
    """Raise for an array with an impossible description."""
    raise InvalidInput(f"{what} of the Arrow array", value, expected, _FAULTY)


def refuse_extent(place: int, begin: int, end: int, size: int) -> NoReturn:
    """Raise for a key with bytes outside the buffer."""
    what = f"extent of the key at index {place}"
    raise InvalidInput(what, f"{begin} .. {end}", f"one within 0 .. {size}", _FAULTY)


def refuse_length(place: int, size: int) -> NoReturn:
    """Raise for a key that is too long, without reading it."""
    hint = "Route a digest of it, say hashlib.sha256(key).digest()."
    raise InvalidInput(f"length of the key at index {place}", size, f"at most {MAX_KEY_BYTES} bytes", hint)


def refuse_stream(reason: str) -> NoReturn:
    """Raise for a stream that reports that it cannot continue."""
    raise InvalidInput("Arrow stream of keys", reason, "one that can be read", _FAULTY)


def _address(capsule: object, name: bytes) -> int:
    """Return the address in a capsule; the interpreter raises `ValueError` for any other object."""
    call = ctypes.pythonapi.PyCapsule_GetPointer
    call.restype, call.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    address: int = call(capsule, name)
    return address


# A capsule releases its content when it is destroyed; the caller holds it until the last key was read.
def _of_array(schema: object, array: object) -> tuple[_Schema, Iterator[_Array]]:
    described = _Schema.from_address(_address(schema, b"arrow_schema"))
    return described, iter([_Array.from_address(_address(array, b"arrow_array"))])


def _of_stream(capsule: object, taken: ExitStack) -> tuple[_Schema, Iterator[_Array]]:
    stream = _Stream.from_address(_address(capsule, b"arrow_array_stream"))
    if not stream.release:
        refuse_stream("it was read before")
    schema = _Schema()
    _take(stream, stream.get_schema, schema, taken)
    return schema, _arrays(stream, taken)


def _arrays(stream: _Stream, taken: ExitStack) -> Iterator[_Array]:
    while True:
        array = _Array()
        _take(stream, stream.get_next, array, taken)
        if not array.release:
            return
        yield array


def _take(stream: _Stream, function: int, into: _Schema | _Array, taken: ExitStack) -> None:
    """Let a stream fill a structure, and register the structure for release."""
    get = CFUNCTYPE(c_int, POINTER(_Stream), c_void_p)(function)
    if get(byref(stream), byref(into)):
        last = CFUNCTYPE(c_char_p, POINTER(_Stream))(stream.get_last_error)(byref(stream))
        refuse_stream((last or b"it says no reason").decode(errors="replace"))
    taken.callback(_release, into)


def _release(structure: _Schema | _Array) -> None:
    if structure.release:
        CFUNCTYPE(None, c_void_p)(structure.release)(byref(structure))


def _described(schema: _Schema) -> tuple[str, bool, str | None]:
    if not schema.release:
        refuse_array("release callback of the schema", 0, "that of a schema not yet released")
    names = dict(_metadata(schema.metadata or 0))
    extension = names.get(_EXTENSION)
    kind = (schema.format or b"").decode(errors="replace")
    return kind, bool(schema.dictionary), None if extension is None else extension.decode(errors="replace")


def _metadata(place: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of names and values. Their number comes first, and each text follows its length."""
    if place:
        count, place = c_int32.from_address(place).value, place + 4
        for _ in range(count):
            name, place = _measured(place)
            value, place = _measured(place)
            yield name, value


def _measured(place: int) -> tuple[bytes, int]:
    """Return a text that follows its length, and the place of the next one."""
    size = max(c_int32.from_address(place).value, 0)
    return string_at(place + 4, size), place + 4 + size


def _chunk(kind: str, array: _Array, start: int) -> Iterator[Key]:
    """Return the keys of one array. A fault of the array as a whole is raised here, before the first key."""
    if not array.release:
        refuse_array("release callback", 0, "that of an array not yet released")
    if array.length < 0 or array.length > MAX_ROWS:
        refuse_array("length", array.length, f"one in 0 .. {MAX_ROWS}")
    if array.offset < 0 or array.offset > MAX_ROWS - array.length:
        refuse_array("offset", array.offset, f"one in 0 .. {MAX_ROWS - array.length}")
    if array.length == 0:
        return iter(())
    if kind == _NULLS:
        refuse_null(start)
    fewest = 2 if kind in _INTEGERS else 3
    most = _MOST_BUFFERS if kind in _VIEWS else fewest
    if not fewest <= array.n_buffers <= most:
        expected = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        refuse_array("number of buffers", array.n_buffers, expected)
    if not array.buffers:
        refuse_array("address of the buffers", 0, "another address than 0")
    buffers = list((c_void_p * array.n_buffers).from_address(array.buffers))
    if not buffers[1]:
        refuse_array("address of buffer 1", 0, "that of a buffer")
    _check_nulls(array, buffers[0] or 0, start)
    if kind in _INTEGERS:
        return _integers(kind, array, buffers[1])
    extents = _in_views(array, buffers) if kind in _VIEWS else _in_offsets(kind, array, buffers)
    make = _text if kind in _TEXTS else bytes
    return (make(_read(place, extent)) for place, extent in enumerate(extents, start))


def _check_nulls(array: _Array, bitmap: int, start: int) -> None:
    if array.null_count == 0:
        return
    if not bitmap:
        if array.null_count > 0:
            refuse_array("number of nulls", array.null_count, "0, because it marks none")
        return
    for place in range(array.length):
        bit = array.offset + place
        if not ctypes.c_uint8.from_address(bitmap + bit // 8).value >> bit % 8 & 1:
            refuse_null(start + place)


def _integers(kind: str, array: _Array, address: int) -> Iterator[int]:
    number = _INTEGERS[kind]
    return iter(_numbers(number, array.length, address + array.offset * ctypes.sizeof(number)))


def _in_offsets(kind: str, array: _Array, buffers: list[int | None]) -> Iterator[_Extent]:
    offset = _OFFSETS[kind]
    offsets = _numbers(offset, array.length + 1, (buffers[1] or 0) + array.offset * ctypes.sizeof(offset))
    address = buffers[2] or 0
    size = offsets[array.length] if address else 0
    return (_Extent(address, size, offsets[row], offsets[row + 1]) for row in range(array.length))


def _in_views(array: _Array, buffers: list[int | None]) -> Iterator[_Extent]:
    *data, sizes = buffers[2:]
    if data and not sizes:
        refuse_array("address of the sizes", 0, "that of a buffer")
    limits = _numbers(c_int64, len(data), sizes or 0)
    views = (buffers[1] or 0) + 16 * array.offset
    return (_in_view(views + 16 * row, data, limits) for row in range(array.length))


def _numbers(kind: "type[ctypes._SimpleCData[int]]", count: int, address: int) -> Sequence[int]:
    return (kind * count).from_address(address) if count else ()  # type: ignore[return-value]


def _in_view(view: int, data: list[int | None], limits: Sequence[int]) -> _Extent:
    length, _, index, begin = (c_int32 * 4).from_address(view)
    if length <= _INLINE_BYTES:
        return _Extent(view + 4, _INLINE_BYTES, 0, length)
    address = data[index] if 0 <= index < len(data) else None
    return _Extent(address or 0, limits[index] if address else 0, begin, begin + length)


def _read(place: int, extent: _Extent) -> bytes:
    address, size, begin, end = extent
    if not 0 <= begin <= end <= size:
        refuse_extent(place, begin, end, size)
    if end - begin > MAX_KEY_BYTES:
        refuse_length(place, end - begin)
    return string_at(address + begin, end - begin)


def _text(data: bytes) -> Key:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
