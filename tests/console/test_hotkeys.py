"""`apportion hotkeys`: what it prints, with a counter that counts exactly in the place of the extra.

That the bounds of the real counter hold is tested in `tests/live/test_hotkeys_oracle.py`.
"""

import json
import sys
from collections import Counter
from types import ModuleType, SimpleNamespace

import pytest

from tests.console.running import refused, run, written

MANY = b"vip\n" * 5 + b"b\na\n" * 2 + b"once\n"


class Sketch:
    """As the sketch of datasketches, but exact, or with an error of `slack` below its upper bounds."""

    slack = 0

    def __init__(self, lg_max_k):
        assert 14 == lg_max_k
        self.counts = Counter()

    @property
    def total_weight(self):
        return self.counts.total()

    def update(self, item):
        self.counts[item] += 1

    def get_upper_bound(self, item):
        return self.counts[item] + self.slack

    def get_frequent_items(self, err_type):
        assert "no false negatives" == err_type
        kept = [(item, count) for item, count in self.counts.items() if count > self.slack]
        return [(item, count, count - self.slack, count) for item, count in kept]


@pytest.fixture
def counter(monkeypatch):
    package = ModuleType("datasketches")
    package.frequent_strings_sketch = type("Exact", (Sketch,), {})
    package.frequent_items_error_type = SimpleNamespace(NO_FALSE_NEGATIVES="no false negatives")
    monkeypatch.setitem(sys.modules, "datasketches", package)
    return package.frequent_strings_sketch


def lines_of(*arguments, folder):
    done = run("hotkeys", *arguments, folder=folder)
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode().splitlines()


def test_columns_are_key_at_least_at_most_and_share(counter, tmp_path):
    keys = written(tmp_path, "keys.txt", MANY)
    head, rule, *rows = lines_of("--keys", keys, "--top", "3", folder=tmp_path)
    assert ["key", "at least", "at most", "share"] == [cell.strip() for cell in head.split("  ") if cell.strip()]
    assert {"─"} == set(rule)
    assert ["'vip' 5 5 50.00%", "'a' 2 2 20.00%", "'b' 2 2 20.00%", ""] == [" ".join(row.split()) for row in rows[:-1]]
    assert "hotkeys: 10 keys read; each other key came at most 1 times" == rows[-1]


def test_bounds_that_are_apart_are_both_printed(counter, tmp_path):
    counter.slack = 1
    keys = written(tmp_path, "keys.txt", MANY)
    rows = lines_of("--keys", keys, folder=tmp_path)[2:]
    assert "'vip' 4 5 40.00%" == " ".join(rows[0].split())
    assert rows[-1].endswith("each other key came at most 1 times")


def test_json_says_its_format_version_and_every_bound(counter, tmp_path):
    keys = written(tmp_path, "keys.txt", b"vip\nvip\n\xff\n")
    document = json.loads(run("hotkeys", "--keys", keys, "--top", "1", "--json", folder=tmp_path).stdout)
    hot = {"key": "vip", "at_least": 2, "at_most": 2, "share_ratio": 2 / 3}
    expected = {"format_version": 1, "command": "hotkeys", "keys": 3, "hot": [hot], "others_at_most": 1}
    assert expected == document


def test_keys_are_bytes_and_those_that_are_no_text_are_shown_as_such(counter, tmp_path):
    keys = written(tmp_path, "keys.txt", b"\xff\n\xff\n\xc3\xa9\n\n[bold]\n")
    rows = lines_of("--keys", keys, folder=tmp_path)[2:-2]
    assert [r"b'\xff'", "''", "'[bold]'", "'é'"] == [row.split()[0] for row in rows]
    document = json.loads(run("hotkeys", "--keys", keys, "--json", folder=tmp_path).stdout)
    assert [{"key_hex": "ff"}, {"key": ""}] == [
        {name: each[name] for name in each if name.startswith("key")} for each in document["hot"][:2]
    ]


def test_a_column_of_a_csv_file_gives_the_keys(counter, tmp_path):
    keys = written(tmp_path, "hits.csv", "url,tenant\n/,acme\n/x,acme\n/,umbrella\n")
    assert lines_of("--keys", keys, "--column", "tenant", folder=tmp_path)[2].split()[:2] == ["'acme'", "2"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--keys FILE"),
        (("--keys", "none.txt"), "no such file"),
        (("--keys", "empty.txt"), "at least one key"),
        (("--keys", "keys.txt", "--top", "0"), "--top"),
        (("--keys", "keys.txt", "--top", "10001"), "--top"),
        (("--keys", "keys.txt", "--top", "many"), "--top"),
        (("--keys", "keys.txt", "--column", "x"), "--column"),
        (("--keys", "keys.txt", "--topp", "3"), "--top"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(counter, tmp_path, arguments, says):
    written(tmp_path, "keys.txt", MANY)
    written(tmp_path, "empty.txt", b"")
    assert says in refused(run("hotkeys", *arguments, folder=tmp_path))


def test_without_the_extra_the_line_that_installs_it_is_printed(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    message = refused(run("hotkeys", "--keys", written(tmp_path, "keys.txt", MANY), folder=tmp_path))
    assert "pip install 'apportion[hotkeys]'" in message


def test_other_commands_do_not_load_the_extra(tmp_path):
    before = set(sys.modules)
    run("route", "--nodes", "a", "k", folder=tmp_path)
    assert "datasketches" not in set(sys.modules) - before
