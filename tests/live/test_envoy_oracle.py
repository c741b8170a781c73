"""Envoy's rules against doubles of C++ and the GNU library's `std::hash`.

There is no program to ask: what Envoy itself answers are the vectors of its own tests, in `tests/placement/vectors`.
"""

import os
import shutil
import subprocess
from random import Random

import pytest
from xxhash import xxh64_intdigest

from apportion import Node
from apportion.placement.layouts.envoy import Envoy, murmur_hash_2
from apportion.placement.layouts.envoy_maglev import EnvoyMaglev

pytestmark = pytest.mark.live

TEXTS = 30_000
RINGS = 20_000
TABLES = 400
LETTERS = "az09 .é\u0301ßñ節点ひ🙂𝄞"

# H bytes: their hash. R minimum maximum hosts weights: points of each. M slots hosts (weight offset skip): owners.
PROGRAM = r"""
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>
int main() {
  char what;
  while (std::cin >> what) {
    if (what == 'H') {
      std::string digits, text;
      std::cin >> digits;
      for (size_t i = 1; i + 1 < digits.size(); i += 2) text += (char)std::stoi(digits.substr(i, 2), nullptr, 16);
      printf("%zu\n", std::hash<std::string>{}(text));
      continue;
    }
    unsigned long low = 0, high = 0, hosts, sum = 0;
    std::cin >> low;
    if (what == 'R') std::cin >> high;
    std::cin >> hosts;
    std::vector<unsigned long> weight(hosts), next(hosts), skip(hosts);
    for (size_t i = 0; i < hosts; i++) {
      std::cin >> weight[i];
      if (what == 'M') std::cin >> next[i] >> skip[i];
      sum += weight[i];
    }
    double least = 1, most = 0;
    std::vector<double> share(hosts), target(hosts);
    for (size_t i = 0; i < hosts; i++) {
      share[i] = weight[i] * 1.0 / sum;
      least = std::fmin(least, share[i]);
      most = std::fmax(most, share[i]);
    }
    if (what == 'R') {
      double scale = std::fmin(std::ceil(least * low) / least, (double)high), wanted = 0, made = 0;
      for (size_t i = 0; i < hosts; i++) {
        unsigned long points = 0;
        volatile double more = scale * share[i];  // rounded by itself, on every machine
        wanted += more;
        while (made < wanted) { ++made; ++points; }
        printf("%lu ", points);
      }
    } else {
      std::vector<long> owner(low, -1);
      unsigned long taken = 0;
      for (unsigned round = 1; taken < low; ++round)
        for (size_t i = 0; i < hosts && taken < low; i++) {
          if (round * share[i] < target[i]) continue;
          target[i] += most;
          while (owner[next[i]] >= 0) next[i] = (next[i] + skip[i]) % low;
          owner[next[i]] = i;
          ++taken;
        }
      for (long each : owner) printf("%ld ", each);
    }
    puts("");
  }
}
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The program as a function from lines to lines."""
    compiler, folder = shutil.which("g++"), tmp_path_factory.mktemp("envoy")
    if compiler is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no g++: apt-get install g++")
    (folder / "rules.cc").write_text(PROGRAM)
    subprocess.run([compiler, "-O2", "-ffp-contract=off", "-o", "rules", "rules.cc"], cwd=folder, check=True)

    def ask(lines):
        done = subprocess.run(
            [folder / "rules"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    return ask


def texts():
    """Return bytes of every length up to 64, texts outside ASCII and 64-bit integers of both byte orders."""
    random = Random(53)
    for number in range(TEXTS // 3):
        yield random.randbytes(number % 65)
        yield "".join(random.choices(LETTERS, k=random.randint(0, 30))).encode()
        yield random.getrandbits(64).to_bytes(8, random.choice(["big", "little"]))


def random_hosts(random, most):
    """Return hosts with weights of one kind, in a random order."""
    top = random.choice([1, 2, 5, 1000, 10**6, 10**8])
    names = random.sample(range(1000), random.randint(1, most))
    return [Node(f"10.0.0.{number}:80é", weight=random.randint(1, top)) for number in names]


def test_murmur_hash_2_is_that_of_the_gnu_library(answers):
    asked = list(texts())
    # The dash stands for no bytes at all.
    found = answers(f"H -{text.hex()}" for text in asked)
    assert (TEXTS, list(map(int, found))) == (len(asked), [murmur_hash_2(text) for text in asked])


def test_points_of_each_host_are_those_of_doubles_in_c(answers):
    random, lines, expected = Random(54), [], []
    for _ in range(RINGS):
        hosts, sizes = random_hosts(random, 12), sorted(random.choices([1, 2, 3, 7, 10, 50, 51, 99], k=2))
        lines.append(f"R {sizes[0]} {sizes[1]} {len(hosts)} {' '.join(f'{host.weight:.0f}' for host in hosts)}")
        built = Envoy(hosts, minimum_ring_size=sizes[0], maximum_ring_size=sizes[1])
        expected.append([built._points[host.id] for host in hosts])
    assert expected == [list(map(int, line.split())) for line in answers(lines)]


def test_who_has_each_slot_is_that_of_doubles_in_c(answers):
    random, lines, expected = Random(55), [], []
    for _ in range(TABLES):
        size = random.choice([101, 251, 499, 997])
        hosts = sorted(random_hosts(random, 30), key=lambda host: host.id)
        rows = (
            f"{host.weight:.0f} {xxh64_intdigest(host.id.encode()) % size} "
            f"{xxh64_intdigest(host.id.encode(), seed=1) % (size - 1) + 1}"
            for host in hosts
        )
        lines.append(f"M {size} {len(hosts)} {' '.join(rows)}")
        expected.append(list(EnvoyMaglev(hosts, table_size=size)._slots))
    assert expected == [list(map(int, line.split())) for line in answers(lines)]
