"""What the tests of the native twin share: the twin, both answers, and proof that the twin gave one of them."""

import threading
from contextlib import contextmanager

import pytest

from apportion import hashers, native
from apportion.errors import ApportionError, InvalidInput
from apportion.placement.keys.key_bytes import key_bytes, listed
from apportion.placement.ring import _check_tokens, _token_count
from apportion.placement.shapes import router
from apportion.placement.shapes.circle import Circle

SECRET = bytes(range(16))
SECRETS = {name: SECRET if name.startswith("siphash") else None for name in hashers.names()}

needs_twin = pytest.mark.skipif(not native.IN_USE, reason=native.DETAIL)


@contextmanager
def answered_by_the_twin(answers):
    """Hold the block to so many answers of the twin, where it is in use: the reference never meets itself."""
    before = native.extension.keys_handled() if native.IN_USE else 0
    yield
    assert not native.IN_USE or answers == native.extension.keys_handled() - before


def reference(name, key):
    """Return a key's position by the reference."""
    return hashers.position_of(hashers.get(name, key=SECRETS[name]))(key_bytes(key))


class Reference(router.ReferenceRouter):
    """The reference of a ring, of which nothing is in the twin."""

    __slots__ = ("topology",)

    _met_by_walks = None
    _preferred = Circle._preferred


def reference_ring(topology, vnodes, hasher):
    """Return the reference of a ring."""
    ring = Reference()
    ring.topology = topology
    ring._lay_tokens(topology, hasher, lambda node: _token_count(node, vnodes), _check_tokens)
    return ring


def laid_reference(placement, topology):
    """Return the reference of a circle that is laid already, for lists of some nodes."""
    reference = Reference()
    reference.topology = topology
    reference._lay(topology.ids, placement.hasher, *placement._cuts())
    return reference


def twin(name, key):
    """Return a key's position by the twin, asked alone and in a list."""
    with answered_by_the_twin(4):
        alone = native.extension.position(name, key, SECRETS[name])
        listed = native.extension.positions(name, [key, "", key], SECRETS[name])
    assert [alone, alone] == [int.from_bytes(listed[at : at + 8], "little") for at in (0, 16)]
    return alone


def outcome(call):
    """Return what a call gives: its answer, or the type and the text of what it raises on purpose."""
    try:
        return call()
    except (ApportionError, ValueError) as error:
        return type(error), str(error)


def bulk_reference(name, keys):
    """Return the positions of many keys by the reference, as the twin gives them."""
    position = hashers.position_of(hashers.get(name, key=SECRETS[name]))
    return b"".join([position(key_bytes(key)).to_bytes(8, "little") for key in listed(keys)])


def agreed(make, *, name="xxh3-64", threads=(1, 2, 16)):
    """Return the keys' positions, or the error, on which twin and reference agree; `make` makes the container anew."""
    expected = outcome(lambda: bulk_reference(name, make()))
    for count in threads:
        before = native.extension.keys_handled()
        found = outcome(lambda count=count: native.extension.positions(name, make(), SECRETS[name], count))
        assert expected == found
        answered = len(found) // 8 if isinstance(found, bytes) else 0
        assert answered == native.extension.keys_handled() - before
    return expected


def is_refused(found, *said):
    """Whether the agreed outcome is an error that says all of this."""
    return isinstance(found, tuple) and issubclass(found[0], InvalidInput) and all(part in found[1] for part in said)


def hammered(call, *, rounds):
    """Return the different answers that sixteen threads of Python get, calling with their number again and again."""
    found = set()

    def hammer(number):
        found.update(call(number) for _ in range(rounds))

    hammers = [threading.Thread(target=hammer, args=[number]) for number in range(16)]
    for each in hammers:
        each.start()
    for each in hammers:
        each.join()
    return found
