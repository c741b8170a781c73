"""Arrow arrays and streams made by hand, with any lengths, offsets and addresses, and a count of their releases.

All memory stays until the end of the tests. A reader that takes too much, or reads after its release, still finds it.
"""

import ctypes
from ctypes import CFUNCTYPE, byref, c_char_p, c_int, c_void_p, cast, py_object, pythonapi

from apportion.placement.keys.arrow import _Array, _Schema, _Stream

KEPT = []
ENOMEM = 12


def kept(thing):
    """Return a thing, which stays."""
    KEPT.append(thing)
    return thing


def address(data):
    """Return where a copy of bytes stands; None for none."""
    return None if data is None else cast(kept(ctypes.create_string_buffer(data, len(data) or 1)), c_void_p).value


def numbers(kind, *values):
    """Return numbers as the bytes of a buffer: `numbers("i", 0, 3)`."""
    from array import array

    return array(kind, values).tobytes()


class Releases:
    """A release callback that counts: a structure released twice, or never, shows."""

    def __init__(self):
        self.made, self.done = 0, 0
        self.address = cast(kept(CFUNCTYPE(None, c_void_p)(self._release)), c_void_p).value

    def of(self, structure):
        """Let the callback release a structure."""
        self.made += 1
        structure.release = self.address
        return structure

    def _release(self, place):
        self.done += 1
        # A reader moves structures about, but each kind has another place of the callback.
        kind = next(kind for kind in (_Schema, _Array, _Stream) if kind.from_address(place).release == self.address)
        kind.from_address(place).release = None


def schema_of(kind, releases, *, encoded=False, extension=None):
    """Return a schema of a format."""
    schema = _Schema()
    kept(schema)
    schema.format = kept(kind.encode())
    if encoded:
        schema.dictionary = ctypes.addressof(schema_of("u", releases))
    if extension is not None:
        pairs = [(b"other", b""), (b"ARROW:extension:name", extension)]
        texts = b"".join(numbers("i", len(text)) + text for pair in pairs for text in pair)
        schema.metadata = address(numbers("i", len(pairs)) + texts)
    return releases.of(schema)


def array_of(buffers, releases, *, length, offset=0, null_count=0, n_buffers=None):
    """Return an array of buffers."""
    array = _Array()
    kept(array)
    array.length, array.offset, array.null_count = length, offset, null_count
    array.n_buffers = len(buffers) if n_buffers is None else n_buffers
    addresses = kept((c_void_p * max(len(buffers), 1))(*map(address, buffers)))
    array.buffers = ctypes.addressof(addresses)
    return releases.of(array)


def capsule(structure, name):
    """Return a capsule that releases nothing: only the releases of the reader are counted."""
    new = pythonapi.PyCapsule_New
    new.restype, new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
    return new(ctypes.addressof(structure), kept(name), None)


class Arrow:
    """An object that exports one array."""

    def __init__(self, kind, buffers, *, encoded=False, extension=None, **described):
        self.releases = Releases()
        self.schema = schema_of(kind, self.releases, encoded=encoded, extension=extension)
        self.array = array_of(buffers, self.releases, **described)

    def __arrow_c_array__(self, requested_schema=None):
        return capsule(self.schema, b"arrow_schema"), capsule(self.array, b"arrow_array")


class Chunked:
    """An object that exports a stream, once: of arrays as `(buffers, length)`; it fails after them if there is a reason
    to.
    """

    def __init__(self, kind, *arrays, reason=None):
        self.releases, self.handed_out, self.reason = Releases(), 0, reason
        self.said = address(None if reason is None else reason + b"\0")
        self.kind, self.arrays = kind, list(arrays)
        self.stream = _Stream()
        kept(self.stream)
        self.stream.get_schema = self._function(self._schema)
        self.stream.get_next = self._function(self._next)
        last = kept(CFUNCTYPE(c_void_p, c_void_p)(lambda _: self.said))
        self.stream.get_last_error = cast(last, c_void_p).value
        self.released = Releases()
        self.released.of(self.stream)

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule(self.stream, b"arrow_array_stream")

    def _function(self, call):
        return cast(kept(CFUNCTYPE(c_int, c_void_p, c_void_p)(call)), c_void_p).value

    def _schema(self, _, into):
        made = schema_of(self.kind, self.releases)
        ctypes.memmove(into, byref(made), ctypes.sizeof(made))
        return 0

    def _next(self, _, into):
        if self.handed_out == len(self.arrays):
            ctypes.memset(into, 0, ctypes.sizeof(_Array))
            return ENOMEM if self.reason else 0
        buffers, length = self.arrays[self.handed_out]
        self.handed_out += 1
        made = array_of(buffers, self.releases, length=length, null_count=-1)
        ctypes.memmove(into, byref(made), ctypes.sizeof(made))
        return 0
