"""Ranges against SQLite: which boundary a key lies behind, and which ranges a scan meets, by another order of keys.

SQLite compares integers as numbers, text in its binary collation and blobs byte by byte.
"""

import sqlite3
from contextlib import closing
from random import Random

import pytest

from apportion.placement.ranges import Ranges

pytestmark = pytest.mark.live

KEYS = 30_000
SCANS = 2_000
LETTERS = "az09 .é\u0301ßñ節点ひ🙂𝄞\uffff"


def ints(random):
    return random.choice([random.getrandbits(64) - 2**63, random.randint(-300, 300)])


def texts(random):
    return "".join(random.choices(LETTERS, k=random.randint(0, 12)))


def blobs(random):
    # Every length, and few bytes to choose from in half of them, so that keys begin with each other.
    return bytes(random.choices(random.choice([range(256), (0, 1, 255)]), k=random.randint(0, 64)))


def database(bounds, owners):
    """Return a table of ranges: their starts, none for the first, and who owns them."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE ranges (start, owner TEXT)")
    connection.execute("CREATE INDEX by_start ON ranges (start)")
    connection.executemany("INSERT INTO ranges VALUES (?, ?)", zip([None, *bounds], owners, strict=True))
    return connection


@pytest.mark.parametrize("draw", [ints, texts, blobs])
def test_a_key_is_in_the_range_where_sqlite_finds_it(draw):
    random = Random(f"route {draw.__name__}")
    bounds = in_order({draw(random) for _ in range(200)} - {"", b"", -(2**63)})
    owners = [f"n{number:03}" for number in range(len(bounds) + 1)]
    ranges = Ranges(owners, bounds=bounds, owners=owners)
    keys = [*bounds, *(draw(random) for _ in range(KEYS))]
    question = "SELECT owner FROM ranges WHERE start IS NULL OR start <= ? ORDER BY start DESC LIMIT 1"
    with closing(database(bounds, owners)) as connection:
        expected = [connection.execute(question, (key,)).fetchone()[0] for key in keys]
    assert expected == ranges.route_many(keys)


@pytest.mark.parametrize("draw", [ints, texts, blobs])
def test_a_scan_meets_the_ranges_that_sqlite_finds(draw):
    random = Random(f"scan {draw.__name__}")
    bounds = in_order({draw(random) for _ in range(200)} - {"", b"", -(2**63)})
    owners = [f"n{number:03}" for number in range(len(bounds) + 1)]
    ranges = Ranges(owners, bounds=bounds, owners=owners)
    first = "SELECT owner FROM ranges WHERE start IS NULL OR start <= ? ORDER BY start DESC LIMIT 1"
    others = "SELECT owner FROM ranges WHERE start > ? AND start < ? ORDER BY start"
    with closing(database(bounds, owners)) as connection:
        for _ in range(SCANS):
            start, end = in_order({draw(random), draw(random), bounds[0]})[:2]
            expected = [connection.execute(first, (start,)).fetchone()[0]]
            expected += [owner for (owner,) in connection.execute(others, (start, end))]
            assert expected == [names[0] for _, names in ranges.scan(start, end)]


def in_order(keys):
    """Return keys in the order that SQLite gives them."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE keys (key)")
        connection.executemany("INSERT INTO keys VALUES (?)", [(key,) for key in keys])
        return [key for (key,) in connection.execute("SELECT key FROM keys ORDER BY key")]
