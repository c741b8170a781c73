"""`apportion hotkeys` with the real datasketches: its bounds hold, and every process prints the same."""

import json
import os
import subprocess
from collections import Counter
from importlib import import_module
from random import Random

import pytest

from apportion.console.hotkeys import KEYS_COUNTED_EXACTLY
from tests.console.running import COMMAND, run, written

pytestmark = pytest.mark.live

KEYS = 200_000
LETTERS = "az09 .é\u0301ßñ節点ひ🙂𝄞"


@pytest.fixture(autouse=True)
def datasketches():
    """Without the package skip, and fail where everything must run."""
    try:
        import_module("datasketches")
    except ImportError as error:
        reason = f"{error}: pip install 'apportion[hotkeys]'"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def key_of(random, number):
    """Return the bytes of a key: a hot one with a long tail, any bytes of any length, or text outside ASCII."""
    kind = number % 4
    if kind < 2:
        return b"tenant-%d" % int(random.paretovariate(0.8))
    if kind == 2:
        return bytes(random.choices([0, 9, 11, 31, 127, 128, 195, 255], k=number // 4 % 65))
    return "".join(random.choices(LETTERS, k=random.randint(0, 6))).encode()


def counted(keys, folder, *arguments):
    """Return what the command says about a file of keys, as JSON."""
    file = written(folder, "keys", b"".join(key + b"\n" for key in keys))
    done = run("hotkeys", "--keys", file, "--json", *arguments, folder=folder)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def test_every_bound_holds_for_more_keys_than_are_counted_exactly(tmp_path):
    random = Random(45)
    keys = [key_of(random, number) for number in range(KEYS)]
    counts = Counter(keys)
    assert len(counts) > 2 * KEYS_COUNTED_EXACTLY
    found = counted(keys, tmp_path, "--top", "500")
    listed = {each["key"].encode() if "key" in each else bytes.fromhex(each["key_hex"]): each for each in found["hot"]}
    assert (KEYS, 500) == (found["keys"], len(listed))
    assert [] == [key for key, each in listed.items() if not each["at_least"] <= counts[key] <= each["at_most"]]
    assert max(count for key, count in counts.items() if key not in listed) <= found["others_at_most"]
    assert {key for key, _ in counts.most_common(20)} <= set(listed)


def test_as_many_different_keys_as_fit_are_counted_exactly(tmp_path):
    keys = [b"k%d" % number for number in range(KEYS_COUNTED_EXACTLY)] + [b"k7"] * 9 + [b"k8"]
    found = counted(keys, tmp_path, "--top", "3")
    assert [("k7", 10, 10), ("k8", 2, 2), ("k0", 1, 1)] == [
        (each["key"], each["at_least"], each["at_most"]) for each in found["hot"]
    ]
    assert 1 == found["others_at_most"]


def test_every_process_prints_the_same_whatever_its_hash_seed(tmp_path):
    random = Random(46)
    keys = written(tmp_path, "keys", b"".join(key_of(random, number) + b"\n" for number in range(KEYS // 2)))
    command = [*COMMAND, "hotkeys", "--keys", str(keys), "--top", "50"]
    printed = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True, timeout=120
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert 1 == len(printed)
