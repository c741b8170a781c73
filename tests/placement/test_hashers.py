"""Each hash function gives its published numbers for ever, and a secret is never shown."""

import pickle
from hashlib import md5

import pytest

from apportion import Ring, Slots, Table, Topology, balance, hashers
from apportion.errors import InvalidInput, UnknownOption

SECRET = bytes(range(16))


def sanity_buffer(length):
    """Return the pseudo-random bytes that xxHash's own tests hash."""
    state, data = 2654435761, bytearray()
    for _ in range(length):
        data.append(state >> 56)
        state = state * 11400714785074694797 % 2**64
    return bytes(data)


# Origin: xxHash, cli/xsum_sanity_check.c, seed 0, of the sanity buffer above cut to a length.
XXH3_64 = {
    0: 0x2D06800538D394C2,
    1: 0xC44BDFF4074EECDB,
    6: 0x27B56A84CD2D7325,
    12: 0xA713DAF0DFBB77E7,
    24: 0xA3FE70BF9D3510EB,
    48: 0x397DA259ECBA1F11,
    80: 0xBCDEFBBB2C47C90A,
    195: 0xCD94217EE362EC3A,
    403: 0xCDEB804D65C6DEA4,
    512: 0x617E49599013CB6B,
    2048: 0xDD59E2C3A5F038E0,
    2367: 0xCB37AEB9E5D361ED,
}
XXH64 = {
    0: 0xEF46DB3751D8E999,
    1: 0xE934A84ADB052768,
    4: 0x9136A0DCA57457EE,
    14: 0x8282DCC4994E35C8,
    222: 0xB641AE8CB691C174,
}
# Origin: SipHash, vectors.h of the reference implementation: key 00 01 .. 0f, message 00 01 .. of a length; the one of
# 15 bytes is also appendix A of the paper (Aumasson and Bernstein 2012).
SIPHASH_2_4 = {
    0: 0x726FDB47DD0E0E31,
    1: 0x74F839C593DC67FD,
    2: 0x0D6C8009D9A94F5A,
    3: 0x85676696D7FB7E2D,
    8: 0x93F5F5799A932462,
    15: 0xA129CA6149BE45E5,
    63: 0x958A324CEB064572,
}
PUBLISHED = {
    # Origin: the tests of spaolacci/murmur3 and twmb/murmur3 (Go), first half of x64_128, seed 0.
    "murmur3": {
        b"": 0,
        b"hello": 0xCBD8A7B341BD9B02,
        b"hello, world": 0x342FAC623A5EBC8E,
        b"19 Jan 2038 at 3:14:07 AM": 0xB89E5988B737AFFC,
        b"The quick brown fox jumps over the lazy dog.": 0xCD99481F9EE902C9,
    },
    # Origin: RFC 1321, appendix A.5.
    "md5": {
        b"": 0xD41D8CD98F00B204,
        b"a": 0x0CC175B9C0F1B6A8,
        b"abc": 0x900150983CD24FB0,
        b"message digest": 0xF96B697D7CB7938D,
    },
    # Origin: FIPS 180-4 examples (NIST), "abc" and the empty message.
    "sha-256": {b"": 0xE3B0C44298FC1C14, b"abc": 0xBA7816BF8F01CFEA},
    # Origin: the check value of CRC-16/XMODEM; Redis Cluster specification, appendix A; CLUSTER KEYSLOT foo = 12182.
    "crc16": {b"": 0, b"123456789": 0x31C3},
}


@pytest.mark.parametrize(("length", "expected"), XXH3_64.items())
def test_xxh3_64_gives_the_numbers_of_its_authors(length, expected):
    assert expected == hashers.get("xxh3-64")(sanity_buffer(length))


@pytest.mark.parametrize(("length", "expected"), XXH64.items())
def test_xxh64_gives_the_numbers_of_its_authors(length, expected):
    assert expected == hashers.get("xxh64")(sanity_buffer(length))


@pytest.mark.parametrize(("length", "expected"), SIPHASH_2_4.items())
def test_siphash_2_4_gives_the_numbers_of_its_authors(length, expected):
    assert expected == hashers.get("siphash-2-4", key=SECRET)(bytes(range(length)))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_hash_function_gives_its_published_numbers(name):
    assert PUBLISHED[name] == {data: hashers.get(name)(data) for data in PUBLISHED[name]}


def test_crc16_gives_the_slots_of_redis_cluster():
    assert (12182, 866) == (hashers.get("crc16")(b"foo") % 16384, hashers.get("crc16")(b"hello") % 16384)


def test_every_hash_function_has_a_published_vector():
    assert {*PUBLISHED, "xxh3-64", "xxh64", "siphash-2-4"} == set(hashers.names())


def test_the_default_is_xxh3_64():
    assert hashers.get("xxh3-64") == hashers.get()
    assert "xxh3-64" == Ring(["a"]).hasher.label


def every_hasher():
    return [hashers.get(name, key=SECRET if name.startswith("siphash") else None) for name in hashers.names()]


@pytest.mark.parametrize("hasher", every_hasher(), ids=hashers.names())
def test_a_hash_is_an_int_of_its_bits(hasher):
    hashes = [hasher(b"%d" % number) for number in range(500)]
    assert all(type(each) is int and 0 <= each < 2**hasher.bits for each in hashes)
    assert max(hashes).bit_length() == hasher.bits
    assert hashes == [hasher.digest(b"%d" % number) for number in range(500)]


@pytest.mark.parametrize("hasher", every_hasher(), ids=hashers.names())
def test_a_hasher_survives_pickling(hasher):
    back = pickle.loads(pickle.dumps(hasher))
    assert (hasher, hash(hasher), hasher.label, hasher(b"k")) == (back, hash(back), back.label, back(b"k"))


def test_another_secret_is_another_hasher_with_another_label():
    one, other = (hashers.get("siphash-2-4", key=bytes([number]) * 16) for number in (1, 2))
    assert one != other
    assert one.label != other.label
    assert one(b"k") != other(b"k")


def test_a_label_is_the_same_for_the_same_secret():
    assert hashers.get("siphash-2-4", key=SECRET).label == hashers.get("siphash-2-4", key=SECRET).label
    assert "siphash-2-4:" == hashers.get("siphash-2-4", key=SECRET).label[:12]


SECRETS = [b"hunter2-hunter2!", b"hunter2", b"hunter2" * 10, "hunter2-hunter2!", bytearray(b"hunter2-hunter2!")]


def test_a_secret_is_in_no_repr_label_table_or_explanation():
    hasher = hashers.get("siphash-2-4", key=SECRETS[0])
    ring = Ring(["a", "b"], hasher=hasher)
    shown = [hasher, hasher.label, ring, ring.table(), ring.explain("k"), ring.table().epoch, hasher.digest]
    assert [] == [each for each in shown if "hunter2" in f"{each!r} {each}" or SECRETS[0].hex() in f"{each!r} {each}"]


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
@pytest.mark.parametrize("name", ["siphash-2-4", "xxh3-64", "siphash"])
def test_a_secret_is_in_no_error(name, secret):
    if (name, secret) == ("siphash-2-4", SECRETS[0]):
        secret = b"hunter2-hunter2"
    with pytest.raises(InvalidInput) as caught:
        hashers.get(name, key=secret)
    assert "hunter2" not in f"{caught.value} {caught.value!r} {caught.value.args} {vars(caught.value)}"


def test_siphash_without_a_secret_and_others_with_one_are_refused():
    with pytest.raises(InvalidInput, match="hasher key is None, expected a secret of 16 bytes"):
        hashers.get("siphash-2-4")
    with pytest.raises(InvalidInput, match="md5 takes no secret"):
        hashers.get("md5", key=SECRET)


def test_an_unknown_hasher_is_refused_and_the_nearest_named():
    with pytest.raises(UnknownOption, match="Did you mean 'murmur3'"):
        hashers.get("murmur")
    with pytest.raises(UnknownOption, match="hasher is None"):
        hashers.get(None)


@pytest.mark.parametrize(
    "hasher", [None, 5, b"xxh3-64", object(), Table, md5()], ids=lambda value: type(value).__name__
)
def test_what_is_no_hasher_is_refused(hasher):
    with pytest.raises(InvalidInput, match="hasher is"):
        Ring(["a"], hasher=hasher)


def test_a_hash_too_narrow_for_a_placement_is_refused():
    with pytest.raises(InvalidInput, match="hasher is 'crc16', expected a hash of 64"):
        Ring(["a"], hasher="crc16")


def test_a_narrow_hash_is_the_leading_bits_of_a_position():
    position = hashers.position_of(hashers.get("crc16"))
    assert 0x31C3 << 48 == position(b"123456789")
    assert hashers.get("md5")(b"k") == hashers.position_of(hashers.get("md5"))(b"k")


@pytest.mark.parametrize("found", [1 << 16, 1 << 64, -1, 1.0, "7", None])
def test_a_hash_of_other_bits_than_its_hasher_declares_is_refused(found):
    class Own:
        label, bits = "own", 16

        def __call__(self, data):
            return found if data == b"k" else 7

        digest = __call__

    slots = Slots(balance.slots(Topology(["a", "b"]), count=16), hasher=Own())
    assert slots.owner_at(7 << 48) == slots.route("another")
    for ask in (slots.route, slots.explain, lambda key: slots.route_many(["another", key])):
        with pytest.raises(InvalidInput, match=r"hash is .*, expected an int in 0 .. 2\*\*16 - 1"):
            ask("k")


def test_a_token_of_more_bits_than_a_hasher_declares_is_refused():
    class Own:
        label, bits, digest = "own", 64, staticmethod(lambda _: 1 << 64)

    with pytest.raises(InvalidInput, match=r"hash is 18446744073709551616, expected an int in 0 .. 2\*\*64 - 1"):
        Ring(["a"], hasher=Own())


def test_a_hasher_of_ones_own_is_used():
    class Constant:
        label, bits = "constant", 64

        def __call__(self, data):
            return 7

        digest = __call__

    own = Constant()
    assert "constant" == Ring(Topology(["a"]), hasher=own).table().hasher
