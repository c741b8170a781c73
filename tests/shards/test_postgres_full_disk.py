"""Moves to a server whose disk is full: each channel says so, waits, and goes on once there is room."""

import os
import shutil
import subprocess
from uuid import uuid4

import pytest

from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_clusters import filled, moved
from tests.shards.test_postgres_native import Pair
from tests.stores.rigs.postgres import SECRET

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(300)]

ROOM_BYTES = 24 << 20
WIDE = "UPDATE place SET country = (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 100) n)"


@pytest.fixture
def small(servers):
    """A small file system in memory, in the folder of the target's server."""
    place = servers[1].folder / f"small-{uuid4().hex[:8]}"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=700", "apportion-small", place]
    if os.geteuid() or subprocess.run(mounting, check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("only root can mount a file system to be filled")
    try:
        shutil.chown(place, "postgres", "postgres")
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def files(servers, small, tmp_path, monkeypatch):
    """A set whose shard two has all its rows on the small file system."""
    as_role(monkeypatch, OWNER)
    made = Pair(servers, tmp_path)
    name = made.name("two")
    servers[1].sql(f"CREATE TABLESPACE {name} LOCATION '{small}'", database="postgres")
    servers[1].sql(f"ALTER DATABASE {name} SET TABLESPACE {name}", database="postgres")
    yield made
    made.drop()
    servers[1].sql(f"DROP TABLESPACE {name}", database="postgres")


def fill(filler):
    """Take all the room beside a file."""
    size, more = 0, ROOM_BYTES
    with filler.open("wb") as file:
        while more > 4096:
            try:
                os.posix_fallocate(file.fileno(), size, more)
                size += more
            except OSError:
                more //= 2


@pytest.mark.parametrize(
    ("channel", "step"),
    [("keys", "chunk"), ("keys", "intent"), ("native", "capture"), ("native", "intent")],
)
def test_a_full_disk_of_the_target_is_told_and_waited_for(files, small, channel, step):
    slots, waits, filled_at, filler = filled(files, 500), [], [], small / "filler"

    def hear(event):
        if event.step == step and not filled_at:
            fill(filler)
            files.sql("one", f"{WIDE} WHERE id IN (SELECT id FROM place WHERE slot = %s LIMIT 150)", (slots[1],))
            filled_at.append(event.at)
        if "No space left" in event.why:
            waits.append(event.why)
            if len(waits) == 3:
                filler.unlink()

    assert set() == moved(files, slots, hear, channel)
    assert len(waits) >= 3
    assert all(each.startswith("shard two is unavailable: could not extend file ") for each in waits)
    assert all(each.endswith("; free some space on its disk, or abort the move.") for each in waits)
    assert SECRET not in f"{waits}"
