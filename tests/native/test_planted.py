"""A fault of one bit in the twin does not go unnoticed: the test that holds the function to its reference turns red.

The bit is flipped in a copy of the compiled file, in a constant that the source names, at each place where the compiler
put it; the tests of such a run import the copy. Without a flipped bit the same tests pass when run in the same way.
"""

import platform
import re
import struct
import subprocess
import sys
from os import environ
from pathlib import Path

import pytest

import apportion
from apportion import native
from tests.native.comparing import needs_twin

pytestmark = [needs_twin, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PACKAGE = Path(apportion.__file__).parent
PASSED, FAILED = 0, 1
# Examples are not made smaller: that they fail is enough.
RUN = """
import pytest
from hypothesis import Phase, settings
phases = [Phase.explicit, Phase.generate]
settings.register_profile("planted", derandomize=True, deadline=None, database=None, phases=phases)
settings.load_profile("planted")
code = pytest.main()
from apportion import _native
print(_native.__file__)
raise SystemExit(code)
"""
# With CI set, pytest looks for every difference of two lists, which takes minutes for the tokens of a ring.
PLAIN = "--assert=plain"
EVERY_LENGTH = "test_positions.py::test_every_length_from_0_to_300_and_some_long_ones"
EVERY_LABEL = "test_rankings.py::test_labels_of_every_length_have_the_hashes_of_the_reference"
EVERY_BYTE = "test_layouts.py::test_it_is_for_every_byte_alone"
LAYOUT = "test_layouts.py::test_a_layouts_hash_is_that_of_the_reference"
CROWDED = "test_router.py::test_a_ring_whose_tokens_crowd_is_built_like_any"
MULTIPROBE = "test_chooser.py::test_multiprobe_agrees"
CHOOSE_K = "test_chooser.py::test_choose_k_agrees_when_few_of_many_are_left[500]"
JUMP = "test_chooser.py::test_jump_agrees_for_many_buckets[1000]"
RANGES = "test_range_router.py::test_any_key_alone_or_among_plain_ones_is_answered_or_refused_alike"
CRUSH = (
    "test_helix.py::test_lists_are_those_of_the_reference",
    "test_helix.py::test_lists_that_fall_short_are_filled_by_later_draws_of_the_reference",
    "test_helix.py::test_tokens_are_those_of_the_reference",
)

# What is planted, the constant, and the tests of which one must notice.
IN_DATA = [
    ("crc16", struct.pack("<8H", *(0x1021 * number for number in range(8))), (f"{EVERY_LENGTH}[crc16]",)),
    ("crc32", struct.pack("<4I", 0, 0x77073096, 0xEE0E612C, 0x990951BA), (f"{EVERY_BYTE}[crc32]",)),
    ("xxh3", bytes.fromhex("b8fe6c3923a44bbe"), (f"{EVERY_LENGTH}[xxh3-64]", f"{EVERY_LABEL}[xxh3-64]")),
    ("multiprobe", b"multiprobe/1", (MULTIPROBE,)),
    ("choose-k", b"choose-k", (CHOOSE_K,)),
    ("ranges", b"ordered_position", (RANGES,)),
]
# Instructions of other machines hold no whole word.
IN_INSTRUCTIONS = [
    ("ring", b"\xc7\x00ring", (CROWDED,)),  # a label is begun by an instruction that stores its first four bytes
    ("murmur3", struct.pack("<Q", 0x87C37B91114253D5), (f"{EVERY_LENGTH}[murmur3]", f"{LAYOUT}[cassandra-murmur3]")),
    ("kafka", struct.pack("<I", 0x9747B28C), (f"{LAYOUT}[kafka-murmur2]",)),
    ("md5", struct.pack("<I", 0xD76AA478), (f"{EVERY_LENGTH}[md5]",)),
    ("jump", struct.pack("<Q", 2862933555777941757), (JUMP,)),
    ("crush", struct.pack("<I", 1315423911), CRUSH),
]
IS_X86 = platform.machine() in {"x86_64", "AMD64"}
FAULTS = IN_DATA + IN_INSTRUCTIONS * IS_X86


def places_of(constant, data):
    """Return where a constant stands in the compiled file; if it does not, there is nothing to plant."""
    places = [found.start() for found in re.finditer(re.escape(constant), data)]
    assert places, f"{constant!r} is not in the compiled twin: give the test another constant of that function"
    return places


def flipped(data, place):
    """Return the file with one bit changed."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def ran(folder, data, tests):
    """Return the exit status of tests, and what they say, that import a copy of the package with this twin."""
    built = Path(native.extension.__file__)
    package = folder / PACKAGE.name
    package.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name != built.name:
            (package / path.name).symlink_to(path)
    twin = package / built.name
    twin.write_bytes(data)
    named = [f"tests/native/{test}" for test in tests]
    process = subprocess.run(
        [sys.executable, "-c", RUN, "-qx", "--noconftest", "-pno:cacheprovider", "-ppytest_timeout", PLAIN, *named],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = process.stdout + process.stderr
    assert process.stdout.endswith(f"\n{twin}\n"), f"{process.returncode}, and not by the copy:\n{said}"
    return process.returncode, said


@pytest.mark.parametrize(("constant", "tests"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_flipped_bit_turns_a_test_red(constant, tests, tmp_path):
    whole = Path(native.extension.__file__).read_bytes()
    for place in places_of(constant, whole):
        status, said = ran(tmp_path / str(place), flipped(whole, place + len(constant) - 1), tests)
        assert FAILED == status, f"the bit at {place} was not noticed:\n{said}"


def test_without_a_flipped_bit_the_same_tests_pass(tmp_path):
    whole = Path(native.extension.__file__).read_bytes()
    status, said = ran(tmp_path, whole, {test: None for *_, tests in FAULTS for test in tests})
    assert PASSED == status, said
    assert "skipped" not in said


def test_a_constant_that_is_not_there_is_said():
    with pytest.raises(AssertionError, match="b'abc' is not in the compiled twin"):
        places_of(b"abc", b"ab")
