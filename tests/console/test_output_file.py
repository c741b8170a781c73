"""Writing a file: the order of the steps that make it durable, and the files that it never replaces."""

import errno
import os
import resource
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from apportion import Ring, encode
from apportion.console.files import output_file as files
from apportion.console.files.output_file import FileKind, OutputFile, kind_of
from apportion.console.pages.parts import document
from apportion.errors import InvalidInput
from tests.console.running import COMMAND, refused, run, written

TABLE = encode(Ring(["a"]).table())


def table_file(path, **fields):
    return OutputFile(path=path, kind=FileKind.TABLE, **fields)


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
    table_file(tmp_path / "t").write(TABLE)
    assert ["file", "name", "folder"] == steps
    assert TABLE == (tmp_path / "t").read_bytes()


def test_a_replaced_file_keeps_its_mode_and_a_new_one_obeys_the_mask(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"")
    old.chmod(0o640)
    before = os.umask(0o077)
    try:
        table_file(old).write(TABLE)
        table_file(new).write(TABLE)
    finally:
        os.umask(before)
    assert (0o640, 0o600) == (stat.S_IMODE(old.stat().st_mode), stat.S_IMODE(new.stat().st_mode))


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        table_file(tmp_path / "link").write(TABLE)
        assert (True, TABLE) == ((tmp_path / "link").is_symlink(), (tmp_path / "real").read_bytes())


@pytest.mark.parametrize("kind", ["loop", "folder", "nowhere"])
def test_a_place_that_holds_no_file_is_refused(kind, tmp_path):
    path = tmp_path / "thing"
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path = path / "deep"
    with pytest.raises(InvalidInput, match=r"--output is '.*, expected a"):
        table_file(path, force=True).write(TABLE)


def test_a_pipe_and_a_device_get_the_bytes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    taken = []
    reader = threading.Thread(target=lambda: taken.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    table_file(tmp_path / "pipe").write(TABLE)
    reader.join(10)
    assert [TABLE] == taken
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    screen, device = os.openpty()
    table_file(Path(os.ttyname(device))).write(b"a line\n")
    assert b"a line" == os.read(screen, 100).strip()
    os.close(screen)
    os.close(device)


def test_the_last_step_itself_replaces_no_pipe_and_no_folder(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(FileExistsError):
            files.replace_file(path, TABLE)
    assert ["pipe"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.slow
def test_standard_output_holds_the_file_alone(tmp_path):
    command = [*COMMAND, "plan", "--nodes", "a,b", "--add", "c", "-o", "/dev/stdout"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    with (tmp_path / "plan.json").open("wb") as file:
        subprocess.run(command, cwd=tmp_path, stdout=file, stderr=subprocess.PIPE, timeout=60, check=False)
    assert FileKind.PLAN is kind_of(done.stdout)
    assert done.stdout == (tmp_path / "plan.json").read_bytes()
    assert b"\nplan: " in done.stderr


OTHERS = {
    "plan.json": "a plan",
    "state.json": "an assignment",
    "nodes.toml": "no file of apportion",
    "t.csv": "ranges as CSV",
    "page.html": "a page of apportion",
    "own.html": "no file of apportion",
    "table.json": "a table",
}
WRITERS = {
    "a plan": ("plan", "--nodes", "a,b", "--add", "c", "-o"),
    "a table": ("table", "export", "--nodes", "a,b", "-o"),
    "ranges as CSV": ("table", "export", "--nodes", "a,b", "--csv", "-o"),
    "an assignment": ("assign", "--nodes", "a,b", "--partitions", "4", "-o"),
    "a page of apportion": ("evaluate", "--scenario", "few.toml", "--html"),
}
FEW = """balancers = ["optimal"]
scenarios = ["disable-1%"]
[[resource]]
name = "r"
partitions = 4
[[node]]
id = "a"
[[node]]
id = "b"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a file of each kind."""
    there = tmp_path_factory.mktemp("kinds")
    written(there, "few.toml", FEW)
    written(there, "nodes.toml", '[[node]]\nid = "a"\n')
    written(there, "own.html", "<!DOCTYPE html>\n<p>mine</p>\n")
    written(there, "page.html", document("page", ()))
    for name, words in (("plan.json", "a plan"), ("table.json", "a table"), ("t.csv", "ranges as CSV")):
        assert run(*WRITERS[words], name, folder=there).returncode in (0, 2)
    assert 0 == run(*WRITERS["an assignment"], "state.json", folder=there).returncode
    return there


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("kind", [*[*WRITERS][:-1], pytest.param([*WRITERS][-1], marks=pytest.mark.slow)])
def test_a_file_replaces_only_its_own_kind_without_force(kind, name, folder, tmp_path):
    for each in folder.iterdir():
        written(tmp_path, each.name, each.read_bytes())
    before = (tmp_path / name).read_bytes()
    done = run(*WRITERS[kind], name, folder=tmp_path)
    if OTHERS[name] == kind:
        assert done.returncode in (0, 2), done.stderr
        return
    message = refused(done)
    assert f"expected {kind} or a free name, because the file there is {OTHERS[name]}.\n" in message
    assert "--force" in message
    assert before == (tmp_path / name).read_bytes()
    assert run(*WRITERS[kind], name, "--force", folder=tmp_path).returncode in (0, 2)
    assert kind == kind_of((tmp_path / name).read_bytes()[:256]).value


@pytest.mark.parametrize(
    "command",
    [
        ("table", "export", "--table", "table.json", "-o", "link.json"),
        ("table", "import", "t.csv", "--nodes", "a,b", "-o", "t.csv"),
        ("plan", "--assignment", "state.json", "--add", "c", "-o", "state.json"),
        ("compare", "--nodes", "a,b", "--keys", "page.html", "--html", "page.html"),
        ("apply", "plan.json", "--table", "table.json", "-o", "plan.json"),
    ],
)
def test_no_command_replaces_a_file_that_it_reads(command, folder, tmp_path):
    for each in folder.iterdir():
        written(tmp_path, each.name, each.read_bytes())
    (tmp_path / "link.json").symlink_to("table.json")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    message = refused(run(*command, folder=tmp_path))
    assert "a file that the command does not read" in message
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_a_read_only_file_is_replaced_only_by_force(tmp_path):
    written(tmp_path, "plan.json", "").chmod(0o444)
    command = WRITERS["a plan"]
    assert "read-only" in refused(run(*command, "plan.json", folder=tmp_path))
    assert 2 == run(*command, "plan.json", "--force", folder=tmp_path).returncode
    assert 0o444 == stat.S_IMODE((tmp_path / "plan.json").stat().st_mode)


@pytest.mark.parametrize("fault", ["cut", "newer"])
def test_a_table_that_cannot_be_read_is_replaced_only_by_force(fault, tmp_path):
    data = TABLE[:-9] if fault == "cut" else TABLE.replace(b'"format_version":2', b'"format_version":3')
    written(tmp_path, "table.json", data)
    message = refused(run("table", "export", "--nodes", "a,b", folder=tmp_path))
    assert "cannot be read as a table" in message
    assert ("checksum" if fault == "cut" else "format_version is 3") in message
    assert data == (tmp_path / "table.json").read_bytes()
    assert 0 == run("table", "export", "--nodes", "a,b", "--force", folder=tmp_path).returncode


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    written(tmp_path, "plan.json", "")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    command = [*COMMAND, *WRITERS["a plan"], "plan.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False, preexec_fn=limited)
    message = refused(done)
    assert "(file too large)" in message
    assert "Free space there. The file is unchanged." in message
    assert [("plan.json", b"")] == [(path.name, path.read_bytes()) for path in tmp_path.iterdir()]


def test_a_folder_that_cannot_be_made_durable_is_said(tmp_path, monkeypatch):
    fsync, codes = os.fsync, [errno.EINVAL, errno.EIO]

    def failing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            code = codes.pop(0)
            raise OSError(code, os.strerror(code))
        fsync(descriptor)

    monkeypatch.setattr(files.os, "fsync", failing)
    table_file(tmp_path / "t").write(TABLE)
    with pytest.raises(InvalidInput, match="The new file is in place, but a power cut may bring the old one back"):
        table_file(tmp_path / "t").write(TABLE)
