"""Distributions: what is packed, in what order, and why a build is refused. Real builds are in `live`."""

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from distributions import archive, source, wheel
from distributions.bill_of_materials import Crate, cyclonedx
from distributions.refusal import Refusal

ROOT = Path(__file__).parents[1]
BUILT = {
    "apportion/__init__.py": b"",
    "apportion/_native.abi3.so": b"ELF",
    "apportion-1.dist-info/METADATA": b"Name: a\nLicense-File: LICENSE\nRequires-Dist: mmh3\n\nLicense-File: no\n",
    "apportion-1.dist-info/WHEEL": b"Root-Is-Purelib: false\nTag: cp311-abi3-linux_x86_64\n\n",
    "apportion-1.dist-info/RECORD": b"stale",
}
INFO = "apportion-1.dist-info"


def crate(name, *, needs=(), licences=None):
    return Crate(name=name, version="1.0", licence="MIT", sha256="ab", needs=needs, licences=licences or {})


def git(folder, *words):
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    monkeypatch.setattr(source, "ROOT", tmp_path)
    return tmp_path


def members(*names):
    found = []
    for name in names:
        member = tarfile.TarInfo(name)
        member.mode, member.mtime, member.uid, member.uname = 0o640, len(found), len(found), "ann"
        found.append((member, name.encode()))
    return found


def test_the_order_owners_dates_and_umask_of_a_tar_leave_no_trace():
    other = [(member, content) for member, content in reversed(members("b", "a"))]
    other[0][0].mode = 0o600
    packed = archive.packed_tar(members("b", "a"), 1_700_000_000)
    assert packed == archive.packed_tar(other, 1_700_000_000)
    with tarfile.open(fileobj=io.BytesIO(packed)) as file:
        found = [(each.name, each.mode, each.mtime, each.uid, each.uname) for each in file]
    assert [("a", 0o644, 1_700_000_000, 0, ""), ("b", 0o644, 1_700_000_000, 0, "")] == found


def test_a_script_stays_executable():
    ((script, content),) = members("run")
    script.mode = 0o700
    with tarfile.open(fileobj=io.BytesIO(archive.packed_tar([(script, content)], 0))) as file:
        assert [0o755] == [each.mode for each in file]


def test_a_zip_has_its_metadata_last_and_one_date():
    packed = archive.packed_zip(dict(reversed(BUILT.items())), 1_700_000_000)
    assert packed == archive.packed_zip(BUILT, 1_700_000_000)
    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        assert ["apportion/__init__.py", "apportion/_native.abi3.so"] == file.namelist()[:2]
        assert {(2023, 11, 14, 22, 13, 20)} == {each.date_time for each in file.infolist()}


def test_the_wheel_of_the_reference_has_no_twin_and_suits_every_interpreter():
    pure = wheel.without_twin(BUILT)
    assert "apportion/_native.abi3.so" not in pure
    assert b"Root-Is-Purelib: true\nTag: py3-none-any\n\n" == pure[f"{INFO}/WHEEL"]
    assert "apportion-1-py3-none-any.whl" == wheel.pure_name("apportion-1-cp311-abi3-linux_x86_64.whl")


def test_the_licences_of_crates_are_named_beside_the_own_one():
    made = wheel.with_materials(BUILT, [crate("twin"), crate("md-5", licences={"LICENSE": b"text"})])
    named = made[f"{INFO}/METADATA"].decode().partition("\n\n")[0].splitlines()
    assert ["License-File: LICENSE", "License-File: crates/md-5-1.0/LICENSE", "Requires-Dist: mmh3"] == named[1:]
    assert b"text" == made[f"{INFO}/licenses/crates/md-5-1.0/LICENSE"]


def test_the_record_has_every_file_and_no_digest_of_itself():
    record = wheel.recorded(BUILT)[f"{INFO}/RECORD"].decode().splitlines()
    assert sorted(BUILT) == sorted(line.split(",")[0] for line in record)
    assert f"{INFO}/RECORD,," == record[-1]
    assert "apportion/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0" in record


def test_a_bill_of_materials_names_each_crate_once_and_who_needs_it():
    listed = [crate("twin", needs=("b", "a")), crate("b", needs=("a",)), crate("a")]
    bill = json.loads(cyclonedx(listed))
    assert ["a", "b"] == [each["name"] for each in bill["components"]]
    assert "twin" == bill["metadata"]["component"]["name"]
    assert {"ref": "pkg:cargo/twin@1.0", "dependsOn": ["pkg:cargo/a@1.0", "pkg:cargo/b@1.0"]} == bill["dependencies"][0]
    assert cyclonedx(listed) == cyclonedx([listed[0], listed[2], listed[1]])


def test_a_clean_tree_is_built_at_the_date_of_its_commit(repository, monkeypatch):
    assert source.commit().seconds > 1_700_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    assert 7 == source.commit().seconds


def test_a_changed_tree_is_refused_by_the_name_of_a_file(repository):
    (repository / "file").write_text("two\n")
    with pytest.raises(Refusal, match="1 uncommitted changes, file among them"):
        source.commit()


def test_a_folder_without_a_repository_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "ROOT", tmp_path)
    with pytest.raises(Refusal, match="is no git repository"):
        source.commit()


def test_a_repository_of_another_user_is_refused_with_the_command_that_trusts_it(repository, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with pytest.raises(Refusal, match=r"belongs to another user.*safe\.directory"):
        source.commit()


def test_a_machine_without_git_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}")
    with pytest.raises(Refusal, match="install git"):
        source.commit()


def test_a_full_disk_is_one_sentence_and_leaves_no_part(repository, tmp_path):
    code = (
        "import errno, pathlib, sys; from distributions import __main__ as build\n"
        "def full(path, content): raise OSError(errno.ENOSPC, 'No space left on device', str(path))\n"
        "pathlib.Path.write_bytes = full; build._built = lambda *_: {'a.whl': b'1'}\n"
        f"build.source.ROOT = pathlib.Path({str(repository)!r})\n"
        f"sys.argv = ['dist', '--to', {str(tmp_path / 'to')!r}]; sys.exit(build.main())"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (1, 1) == (done.returncode, done.stderr.count("\n"))
    assert "No space left on device" in done.stderr
    assert [] == list((tmp_path / "to").iterdir())
