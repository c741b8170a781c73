"""Writing a file whole: the order of the steps that make it durable, and what it is never written over."""

import os
import stat
from pathlib import Path

import pytest

from apportion.console.files import io as files
from apportion.console.files.io import write_whole
from apportion.errors import InvalidInput


def test_a_file_is_on_disk_before_it_takes_its_name_and_its_name_after(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, Path.replace

    def recorded_fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def recorded_replace(self, target):
        steps.append("name")
        return replace(self, target)

    monkeypatch.setattr(files.os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    write_whole(tmp_path / "t", b"data", what="file")
    assert ["file", "name", "folder"] == steps
    assert b"data" == (tmp_path / "t").read_bytes()


def test_a_replaced_file_keeps_its_mode_and_a_new_one_obeys_the_mask(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"x")
    old.chmod(0o640)
    before = os.umask(0o077)
    try:
        write_whole(old, b"y", what="file")
        write_whole(new, b"y", what="file")
    finally:
        os.umask(before)
    assert (0o640, 0o600) == (stat.S_IMODE(old.stat().st_mode), stat.S_IMODE(new.stat().st_mode))


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", b"y", what="file")
    assert (True, b"y") == ((tmp_path / "link").is_symlink(), (tmp_path / "real").read_bytes())


@pytest.mark.parametrize("kind", ["fifo", "directory", "null"])
def test_what_is_no_file_is_not_written_over(kind, tmp_path):
    path = tmp_path / "thing"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path = Path("/dev/null")
    mode = path.stat().st_mode
    with pytest.raises(InvalidInput, match=r"device|folder"):
        write_whole(path, b"y", what="--output")
    assert mode == path.stat().st_mode
