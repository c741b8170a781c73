"""Ketama against libmemcached itself, which routes without a server, and its roundings against floats of C.

`python -m tests.live.test_ketama_oracle` prints the answers of libmemcached that are stored in
`tests/placement/vectors/ketama.json`.
"""

import ctypes
import json
import os
import shutil
import subprocess
from random import Random

import pytest

from apportion import Node
from apportion.placement.layouts.ketama import Ketama, _libketama_groups, _libmemcached_groups

pytestmark = pytest.mark.live

KEYS = 30_000
LETTERS = "az09 .é\u0301ßñ節点ひ🙂𝄞"
KETAMA, KETAMA_WEIGHTED = 3, 16
# Debian's build checks that servers * 100 fit its array, and aborts the process above.
MOST_SERVERS = 100

# Each line: the number of servers, then their weights. The answer: their groups, libketama's and libmemcached's.
PROGRAM = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  int n;
  while (scanf("%d", &n) == 1) {
    unsigned long *weight = malloc(n * sizeof *weight), total = 0;
    for (int i = 0; i < n; i++) { scanf("%lu", weight + i); total += weight[i]; }
    for (int i = 0; i < n; i++) {
      float share = (float)weight[i] / (float)total;
      unsigned one = floorf(share * 40.0 * (float)n);
      float steps = share * 160 / 4 * (float)n + 0.0000000001;
      printf("%u %u ", one, (unsigned)floorf(steps));
    }
    puts("");
    free(weight);
  }
}
"""


def absent(what):
    """Skip without an oracle, and fail where everything must run."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(what)


class Libmemcached:
    """The library, asked for the server of a key."""

    def __init__(self, behaviour=KETAMA_WEIGHTED):
        try:
            self.library = ctypes.CDLL("libmemcached.so.11")
        except OSError as error:
            absent(f"{error}: apt-get install libmemcached11")
        self.behaviour = behaviour
        pointer, number, text = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p
        for name, result, arguments in (
            ("create", pointer, [pointer]),
            ("free", None, [pointer]),
            ("behavior_set", ctypes.c_int, [pointer, ctypes.c_int, ctypes.c_uint64]),
            ("server_add_with_weight", ctypes.c_int, [pointer, text, ctypes.c_uint16, number]),
            ("server_add_unix_socket_with_weight", ctypes.c_int, [pointer, text, number]),
            ("generate_hash", number, [pointer, text, ctypes.c_size_t]),
        ):
            function = getattr(self.library, f"memcached_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def owners(self, servers, keys):
        """Return the id of the server of each key; `servers` are (id, weight)."""
        assert len(servers) <= MOST_SERVERS
        client = self.create(None)
        assert 0 == self.behavior_set(client, self.behaviour, 1)
        for node_id, weight in servers:
            assert 0 == self._add(client, node_id, weight)
        owners = [servers[self.generate_hash(client, key, len(key))][0] for key in keys]
        self.free(client)
        return owners

    def _add(self, client, node_id, weight):
        if node_id.startswith("/"):
            return self.server_add_unix_socket_with_weight(client, node_id.encode(), weight)
        host, _, port = node_id.rpartition(":")
        return self.server_add_with_weight(client, host.encode(), int(port), weight)


def keys(count=KEYS, seed=45):
    """Return bytes of every length up to 64, texts outside ASCII and 64-bit integers of both byte orders."""
    random = Random(seed)
    for number in range(count // 3):
        yield random.randbytes(number % 65)
        yield "".join(random.choices(LETTERS, k=random.randint(0, 30))).encode()
        yield random.getrandbits(64).to_bytes(8, random.choice(["big", "little"]))


def lists():
    """Return server lists by name: equal ones where single precision falls short, and weights of every kind."""
    random = Random(46)
    equal = {
        f"{count} equal servers": [(f"h{number}:{11211 + number % 2}", 1) for number in range(count)]
        for count in (1, 2, 25, 47, 61, 94, 100)
    }
    return equal | {
        "small weights": [(f"10.0.0.{number}:11211", random.randint(1, 5)) for number in range(12)],
        "megabytes": [(f"cache{number}.example:9000", random.choice([64, 256, 1024, 4096])) for number in range(30)],
        "any weights": [(f"h{number}:{11210 + number % 4}", random.randint(1, 10**9)) for number in range(50)],
        "one heavy server": [(f"h{number}:11211", 10**9 if number == 3 else 1) for number in range(8)],
        "sockets and addresses": [("/run/m.sock", 2), ("::1:11212", 1), ("::1:11211", 3), ("é.example:11211", 1)],
    }


@pytest.mark.parametrize("name", lists())
def test_a_server_is_that_of_libmemcached(name):
    servers, asked = lists()[name], list(keys())
    ours = Ketama([Node(node_id, weight=weight) for node_id, weight in servers], layout="libmemcached")
    assert Libmemcached().owners(servers, asked) == ours.route_many(asked)
    assert KEYS == len(asked)


def test_servers_of_random_lists_are_those_of_libmemcached():
    random, library = Random(47), Libmemcached()
    for seed in range(400):
        top = random.choice([1, 2, 10, 1000, 10**9])
        servers = [(f"s{n}:{random.choice([11211, 80])}", random.randint(1, top)) for n in range(random.randint(1, 40))]
        ours = Ketama([Node(node_id, weight=weight) for node_id, weight in servers], layout="libmemcached")
        asked = list(keys(120, seed))
        assert library.owners(servers, asked) == ours.route_many(asked)


def test_ketama_without_weights_is_another_layout():
    servers, asked = [(f"h{number}:11211", 1) for number in range(10)], list(keys())
    plain = Libmemcached(KETAMA).owners(servers, asked)
    for layout in ("libketama", "libmemcached"):
        ours = Ketama([node_id for node_id, _ in servers], layout=layout).route_many(asked)
        assert 0.2 > sum(one == other for one, other in zip(plain, ours, strict=True)) / KEYS


def test_groups_are_those_of_floats_in_c(tmp_path):
    compiler = shutil.which("gcc") or absent("no gcc: apt-get install gcc libc6-dev")
    (tmp_path / "groups.c").write_text(PROGRAM)
    subprocess.run([compiler, "-O2", "-o", "groups", "groups.c", "-lm"], cwd=tmp_path, check=True)
    random = Random(48)
    asked = [[1] * count for count in range(1, 500)]
    for _ in range(20_000):
        top = random.choice([2, 5, 1000, 2**24 + 3, 10**9])
        asked.append([random.randint(1, top) for _ in range(random.randint(1, 60))])
    lines = "".join(f"{len(listed)} {' '.join(map(str, listed))}\n" for listed in asked)
    done = subprocess.run([tmp_path / "groups"], input=lines, capture_output=True, text=True, check=True)
    for listed, line in zip(asked, done.stdout.splitlines(), strict=True):
        numbers = list(map(int, line.split()))
        assert (numbers[::2], numbers[1::2]) == (_libketama_groups(listed), _libmemcached_groups(listed))


def stored_cases(owners_of, names, asked):
    """Return cases for the file of vectors: servers, and keys in hexadecimal with the place of their server."""
    for name in names:
        servers = lists()[name]
        places = {node_id: place for place, (node_id, _) in enumerate(servers)}
        owners = [[key.hex(), places[owner]] for key, owner in zip(asked, owners_of(servers, asked), strict=True)]
        yield {"name": name, "servers": servers, "owners": owners}


if __name__ == "__main__":
    print(json.dumps(list(stored_cases(Libmemcached().owners, lists(), list(keys(60, 49)))), ensure_ascii=False))
