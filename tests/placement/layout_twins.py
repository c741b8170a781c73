"""Dumb twins of the layouts of other systems: exact fractions rounded by hand, CRC by bits, searches of all points.

They are written from the rules and share nothing with `apportion` but the values they are given: nodes as (id, weight).
"""

from collections import Counter
from fractions import Fraction
from hashlib import md5

from xxhash import xxh64_intdigest


def rounded(number, bits):
    """Return the nearest fraction of so many significant bits, ties to even: 24 make a float32, 53 a double."""
    number = Fraction(number)
    if number == 0:
        return number
    unit = Fraction(2) ** (number.numerator.bit_length() - number.denominator.bit_length() - bits)
    while number / unit >= 2**bits:
        unit *= 2
    return round(number / unit) * unit


def owner_of(points, position):
    """Return the owner of the first of (point, id) at or after a position, or of the first of all."""
    later = [entry for entry in points if entry[0] >= position]
    return min(later or points)[1]


def libketama_groups(weights):
    """Return the groups of each server: one rounding for the share, one at the end."""
    total = rounded(sum(weights), 24)
    shares = [rounded(rounded(weight, 24) / total, 24) for weight in weights]
    return [rounded(rounded(share * 40, 53) * len(weights), 24).__floor__() for share in shares]


def libmemcached_groups(weights):
    """Return the groups of each server: a rounding after every step, and the library's small addition."""
    total, groups = rounded(sum(weights), 24), []
    for weight in weights:
        steps = rounded(rounded(weight, 24) / total, 24)
        steps = rounded(steps * 160, 24)
        steps = rounded(steps / 4, 24)
        steps = rounded(steps * len(weights), 24)
        steps = rounded(rounded(steps + Fraction(1e-10), 53), 24)
        groups.append(steps.__floor__())
    return groups


def ketama_points(servers, names, groups):
    """Return (point, id) of all points of all servers."""
    points = []
    for (node_id, _), name, count in zip(servers, names, groups, strict=True):
        for group in range(count):
            digest = md5(name.encode() + b"-" + str(group).encode()).digest()
            for place in (0, 4, 8, 12):
                four = digest[place : place + 4]
                points.append((four[0] | four[1] << 8 | four[2] << 16 | four[3] << 24, node_id))
    return points


def ketama_hash(key):
    """Return a key's first four bytes of MD5, little-endian."""
    digest = md5(key).digest()
    return digest[0] + digest[1] * 256 + digest[2] * 256**2 + digest[3] * 256**3


def crc32_state(state, data):
    """Return the state of a CRC-32 after some bytes, bit by bit."""
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0xEDB88320 if state & 1 else 0)
    return state


def crc32(data):
    """Return the CRC-32 of some bytes."""
    return crc32_state(0xFFFFFFFF, data) ^ 0xFFFFFFFF


def nginx_points(servers):
    """Return (point, id) of all points; `servers` are (id, host, port, weight)."""
    points = []
    for node_id, host, port, weight in servers:
        base = crc32_state(0xFFFFFFFF, host + b"\0" + port)
        point = 0
        for _ in range(160 * weight):
            previous = bytes([point % 256, point >> 8 & 255, point >> 16 & 255, point >> 24])
            point = crc32_state(base, previous) ^ 0xFFFFFFFF
            points.append((point, node_id))
    return points


def envoy_shares(hosts):
    """Return each host's share, a double."""
    return [rounded(Fraction(weight, sum(weight for _, weight in hosts)), 53) for _, weight in hosts]


def envoy_points(hosts, minimum, maximum, digest=xxh64_intdigest):
    """Return (point, id) of all points of the hosts, one by one."""
    shares = envoy_shares(hosts)
    least = rounded(min(shares) * minimum, 53).__ceil__()
    scale = min(rounded(least / min(shares), 53), Fraction(maximum))
    points, made, target = [], 0, Fraction(0)
    for (host, _), share in zip(hosts, shares, strict=True):
        target, number = rounded(target + rounded(scale * share, 53), 53), 0
        while made < target:
            points.append((digest(f"{host}_{number}".encode()), host))
            made, number = made + 1, number + 1
    return points


def envoy_maglev(hosts, size):
    """Return who has each slot: every round asks every host whether it is its turn."""
    hosts = sorted(hosts, key=lambda host: host[0].encode())
    shares = envoy_shares(hosts)
    targets, steps, table, number = [Fraction(0)] * len(hosts), Counter(), [None] * size, 0
    while True:
        number += 1
        for turn, (host, _) in enumerate(hosts):
            if rounded(number * shares[turn], 53) < targets[turn]:
                continue
            targets[turn] = rounded(targets[turn] + max(shares), 53)
            offset, skip = (
                xxh64_intdigest(host.encode()) % size,
                xxh64_intdigest(host.encode(), seed=1) % (size - 1) + 1,
            )
            while table[(offset + skip * steps[turn]) % size] is not None:
                steps[turn] += 1
            table[(offset + skip * steps[turn]) % size] = host
            if None not in table:
                return table
