"""What the tests of the native twin share: the twin, both answers, and proof that the twin gave one of them."""

from contextlib import contextmanager

import pytest

from apportion import hashers
from apportion.placement import native
from apportion.placement.keys import key_bytes

SECRET = bytes(range(16))
SECRETS = {name: SECRET if name.startswith("siphash") else None for name in hashers.names()}

needs_twin = pytest.mark.skipif(not native.IN_USE, reason=native.DETAIL)


@contextmanager
def answered_by_the_twin(keys):
    """Hold the block to as many answers of the twin: the reference is never compared with itself."""
    before = native.extension.keys_handled()
    yield
    assert keys == native.extension.keys_handled() - before


def reference(name, key):
    """Return a key's position by the reference."""
    return hashers.position_of(hashers.get(name, key=SECRETS[name]))(key_bytes(key))


def twin(name, key):
    """Return a key's position by the twin, asked alone and in a list."""
    with answered_by_the_twin(4):
        alone = native.extension.position(name, key, SECRETS[name])
        listed = native.extension.positions(name, [key, "", key], SECRETS[name])
    assert [alone, alone] == [int.from_bytes(listed[at : at + 8], "little") for at in (0, 16)]
    return alone
