"""The owner of a -wal: files, -wal and -shm made byte by byte, as a checkpoint leaves them at each of its moments."""

import asyncio
import os
import struct
import time
from pathlib import Path

import pytest

from apportion.errors import StoreUnavailable
from apportion.stores import administration, connect
from apportion.stores.sqlite import file as sqlite_file
from apportion.stores.sqlite import link as sqlite_link
from apportion.stores.sqlite.leftover import has_leftover

PAGE_BYTES = 512
OLD, NEW, OTHER = b"o" * PAGE_BYTES, b"n" * PAGE_BYTES, b"x" * PAGE_BYTES
SALT = b"saltsalt"
FRAMES = ((1, NEW, 0), (2, NEW, 3), (3, NEW, 0), (1, NEW, 3))  # page, content, pages of the file after a commit


def frame(page, content, commit, salt=SALT):
    return struct.pack(">II8sII", page, commit, salt, 0, 0) + content


def wal_of(*frames, magic=0x377F0682):
    return struct.pack(">IIII8sII", magic, 3007000, PAGE_BYTES, 0, SALT, 0, 0) + b"".join(frames)


def index_of(*, done, begun, salt=SALT):
    return struct.pack("=32x8s56xI28xI4x", salt, done, begun)


def is_leftover(tmp_path, pages, wal, index=b"", *, file_at=20, wal_at=10, is_restored=False):
    path = tmp_path / "s.db"
    for end, content, at in (("", b"".join(pages), file_at), ("-wal", wal, wal_at), ("-shm", index, wal_at)):
        side = tmp_path / f"s.db{end}"
        side.write_bytes(content)
        os.utime(side, (at, at))
    return has_leftover(path, is_restored=is_restored)


@pytest.mark.parametrize(
    ("pages", "done", "begun", "expected"),
    [
        ([NEW, NEW, NEW], 0, 0, False),  # it holds all
        ([OLD, OLD, OLD], 0, 0, True),  # a copy: no checkpoint was begun
        ([OLD, NEW, OLD], 0, 4, True),  # begun, and not from the first page up
        ([NEW, OLD, OLD], 0, 4, False),  # begun, and killed after the first page
        ([NEW, NEW, OLD], 2, 4, False),  # an earlier one ended after two frames, the next was killed
        ([NEW, OLD, OLD], 2, 4, True),  # the end of an earlier one is not there: a copy
        ([NEW, OLD, OLD], 1, 4, False),  # the same, one frame less had been done
        ([OLD, NEW, OLD], 2, 4, True),  # done as far as frame 2, and nothing of the rest begun since
        ([OLD, NEW, OLD], 2, 2, True),  # nothing was begun since
        ([NEW, OLD, OTHER], 0, 3, True),  # the first page stands in the last frame, which was not begun
    ],
)
def test_a_file_that_is_younger_is_passed_if_a_checkpoint_explains_it(tmp_path, pages, done, begun, expected):
    wal = wal_of(*(frame(*each) for each in FRAMES))
    assert expected == is_leftover(tmp_path, pages, wal, index_of(done=done, begun=begun))


def test_frames_are_numbered_by_their_place_however_many_there_are(tmp_path):
    wal = wal_of(*(frame(page, NEW, 0) for page in range(2, 13)), frame(1, NEW, 12))
    pages = [NEW] * 10 + [OLD] + [NEW]  # page 11 is that of frame 10
    assert is_leftover(tmp_path, pages, wal, index_of(done=10, begun=14))
    assert not is_leftover(tmp_path, pages, wal, index_of(done=9, begun=14))


def test_what_was_never_committed_or_is_of_an_earlier_wal_counts_for_nothing(tmp_path):
    wal = wal_of(frame(1, NEW, 2), frame(2, NEW, 0))
    assert not is_leftover(tmp_path, [NEW, OLD], wal)
    wal = wal_of(frame(1, NEW, 2), frame(2, NEW, 2, b"earlier!"), frame(2, NEW, 2))
    assert not is_leftover(tmp_path, [NEW, OLD], wal)
    assert is_leftover(tmp_path, [OLD, OLD], wal)
    assert not is_leftover(tmp_path, [OLD, OLD], wal_of(frame(1, NEW, 2), magic=7))
    assert not is_leftover(tmp_path, [OLD, OLD], b"short")


def test_pages_that_a_commit_has_cut_off_count_for_nothing(tmp_path):
    wal = wal_of(frame(1, NEW, 0), frame(2, OTHER, 2), frame(1, NEW, 1))
    assert not is_leftover(tmp_path, [NEW], wal)


def test_a_file_that_is_not_younger_than_its_wal_is_its_own(tmp_path):
    wal = wal_of(frame(1, NEW, 1))
    assert is_leftover(tmp_path, [OLD], wal, file_at=11)
    for at in (5, 10):
        assert not is_leftover(tmp_path, [OLD], wal, file_at=at)
        assert (tmp_path / "s.db-wal").exists()


def test_a_wal_that_grows_while_it_is_looked_at_belongs_to_the_file(tmp_path, monkeypatch):
    opened = Path.open

    def grown(path, *words, **options):
        if path.name == "s.db-wal":
            time.sleep(0.02)  # the times of a file are coarse
            os.utime(path, (30, 30))
        return opened(path, *words, **options)

    wal = wal_of(frame(1, NEW, 1))
    assert is_leftover(tmp_path, [OLD], wal)
    os.utime(tmp_path / "s.db-wal", (10, 10))
    monkeypatch.setattr(Path, "open", grown)
    assert not has_leftover(tmp_path / "s.db", is_restored=False)


@pytest.mark.parametrize(
    "index",
    [b"", index_of(done=0, begun=3)[:-1], index_of(done=0, begun=3, salt=b"another!")],
    ids=["none", "cut short", "of another -wal"],
)
def test_an_index_that_says_nothing_explains_nothing(tmp_path, index):
    wal = wal_of(frame(1, NEW, 0), frame(2, NEW, 2))
    assert is_leftover(tmp_path, [NEW, OLD], wal, index)
    assert not is_leftover(tmp_path, [NEW, OLD], wal, index_of(done=0, begun=3))


def test_who_has_restored_it_does_not_ask_what_a_checkpoint_might_explain(tmp_path):
    wal, index = wal_of(frame(1, NEW, 0), frame(2, NEW, 2)), index_of(done=0, begun=2)
    assert not is_leftover(tmp_path, [NEW, OLD], wal, index)
    assert is_leftover(tmp_path, [NEW, OLD], wal, index, is_restored=True)
    assert not is_leftover(tmp_path, [NEW, NEW], wal, index, is_restored=True)


def test_a_file_is_not_looked_at_while_this_process_has_it_open_and_is_when_another_file_is(tmp_path, monkeypatch):
    looks = []
    monkeypatch.setattr(sqlite_link, "has_leftover", lambda path, *, is_restored: looks.append(path.name))
    ours, other = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "other"))

    async def story():
        store = await connect(ours)
        looks.clear()
        await administration(ours).inspect()
        assert [] == looks
        await (await connect(other)).close()
        assert {"other.db"} == set(looks)
        looks.clear()
        await store.close()
        await administration(ours).inspect()
        assert {"ours.db"} == set(looks)

    asyncio.run(story())


def test_an_upgrade_refuses_a_leftover_before_it_opens_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_link, "has_leftover", lambda path, *, is_restored: True)
    monkeypatch.setattr(sqlite_file, "_CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(StoreUnavailable, match="-wal belongs to another file"):
        asyncio.run(administration(f"sqlite:///{tmp_path}/s.db").upgrade())
    assert not (tmp_path / "s.db").exists()
