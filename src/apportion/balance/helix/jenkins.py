"""Robert Jenkins' hash of one, two or three 32-bit words, as in Ceph and Helix.

Promises: the same numbers as `JenkinsHash` of Helix; negative words mean their 32 bits.
Source: B. Jenkins 1997; `rjenkins1` of Ceph.
"""

_BITS = 0xFFFFFFFF
_SEED, _X, _Y = 1315423911, 231232, 1232


def hash1(a: int) -> int:
    """Return the hash of one word.

    >>> hash1(1)
    3574081617
    """
    a &= _BITS
    _, _, found = _mix(a, _X, _SEED ^ a)
    return _mix(_Y, a, found)[2]


def hash2(a: int, b: int) -> int:
    """Return the hash of two words.

    >>> hash2(1, 2)
    3079532188
    """
    a, b = a & _BITS, b & _BITS
    a, b, found = _mix(a, b, _SEED ^ a ^ b)
    _, _, found = _mix(_X, a, found)
    return _mix(b, _Y, found)[2]


def hash3(a: int, b: int, c: int) -> int:
    """Return the hash of three words.

    >>> hash3(1, 2, 3), hash3(-5, 7, 1)
    (1935332395, 3127571618)
    """
    a, b, c = a & _BITS, b & _BITS, c & _BITS
    a, b, found = _mix(a, b, _SEED ^ a ^ b ^ c)
    c, x, found = _mix(c, _X, found)
    y, a, found = _mix(_Y, a, found)
    b, x, found = _mix(b, x, found)
    return _mix(y, c, found)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - b - c ^ c >> 13) & _BITS
    b = (b - c - a ^ a << 8) & _BITS
    c = (c - a - b ^ b >> 13) & _BITS
    a = (a - b - c ^ c >> 12) & _BITS
    b = (b - c - a ^ a << 16) & _BITS
    c = (c - a - b ^ b >> 5) & _BITS
    a = (a - b - c ^ c >> 3) & _BITS
    b = (b - c - a ^ a << 10) & _BITS
    c = (c - a - b ^ b >> 15) & _BITS
    return a, b, c
