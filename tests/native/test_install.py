"""What `native/install` makes of cargo's answer: only a missing network is a reason to go without the twin in silence.

It runs as a copy in a folder of its own, with a cargo that says what it is told to and a Python that installs nothing.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[2] / "native" / "install"
CARGO = """#!/bin/sh
cat "$(dirname "$0")/said" >&2
exit {status}
"""
PYTHON = """#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
case $2 in
  *sys.prefix*) dirname "$0" ;;
esac
"""
UNREACHABLE = """error: failed to get `md-5` as a dependency of package `apportion-native v0.1.0 (native)`

Caused by:
  download of config.json failed

Caused by:
  [7] Could not connect to server (Failed to connect to 127.0.0.1 port 9 after 0 ms: Could not connect to server)
"""
REFUSED = {
    "stale-lock": "error: cannot update the lock file native/Cargo.lock because --locked was passed to prevent this\n",
    "stale-lock-before": "error: the lock file native needs to be updated but --locked was passed to prevent this\n",
    "no-lock": "error: cannot create the lock file native/Cargo.lock because --locked was passed to prevent this\n",
    "lock-is-no-toml": "error: failed to parse lock file at: native/Cargo.lock\n\nCaused by:\n  key with no value\n",
    "manifest-is-no-toml": "error: unquoted keys cannot be empty\n  --> native/Cargo.toml:33:3\n   |\n33 | [[[\n",
    "no-library": "error: failed to parse manifest at `native/Cargo.toml`\n\nCaused by:\n  can't find library\n",
    "no-manifest": "error: manifest path `native/Cargo.toml` does not exist\n",
    "other-crate": "error: checksum for `md-5 v0.11.0` changed between lock files\n",
}


OLD = {
    "lock": "error: lock file version 4 requires `-Znext-lockfile-bump`\n",
    "compiler": "error: package `apportion-native v0.1.0` requires rustc 1.88 or newer\n",
    "edition": "error: failed to parse manifest at `native/Cargo.toml`\n\nCaused by:\n  feature `edition2024` is"
    " required\n  consider trying a newer version of Cargo (this may require the nightly release)\n",
}


def installed(folder, *options, status, said):
    """Run the copy with a cargo of this exit status and these words; return the process and what the probe wrote."""
    programs = folder / "programs"
    for place in (programs, folder / "native", folder / "src" / "apportion"):
        place.mkdir(parents=True)
    shutil.copy(INSTALL, folder / "native")
    (folder / "src" / "apportion" / "_native.old.so").touch()
    (programs / "said").write_text(said)
    for name, lines in {"cargo": CARGO.format(status=status), "python": PYTHON}.items():
        (programs / name).write_text(lines)
        (programs / name).chmod(0o755)
    process = subprocess.run(
        [folder / "native" / "install", programs / "python", *options],
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    probe = programs / "native.probe"
    return process, probe.read_text().strip() if probe.exists() else None


def asked_to_install(folder):
    """Whether the Python was asked to install the package."""
    return "-m pip" in (folder / "programs" / "asked").read_text()


@pytest.mark.parametrize(
    ("status", "said"),
    [(101, UNREACHABLE), (124, ""), (101, "error: something that cargo has never said\n")],
    ids=["unreachable", "timed-out", "unknown"],
)
def test_what_may_be_the_network_leaves_the_reference_alone(status, said, tmp_path):
    process, probe = installed(tmp_path, status=status, said=said)
    assert (0, "no crates index", True) == (process.returncode, probe, asked_to_install(tmp_path))
    assert "native twin: no crates index: reference Python only\n" == process.stdout


@pytest.mark.parametrize("said", REFUSED.values(), ids=REFUSED)
def test_files_that_cargo_refuses_end_the_installation_with_its_words(said, tmp_path):
    process, probe = installed(tmp_path, status=101, said=said)
    assert (1, "broken", False) == (process.returncode, probe, asked_to_install(tmp_path))
    assert process.stderr.endswith(said)


@pytest.mark.parametrize("said", OLD.values(), ids=OLD)
def test_a_cargo_that_is_too_old_leaves_the_reference_alone(said, tmp_path):
    process, probe = installed(tmp_path, status=101, said=said)
    assert (0, "old cargo", True) == (process.returncode, probe, asked_to_install(tmp_path))


def test_crates_that_are_there_are_built(tmp_path):
    process, probe = installed(tmp_path, status=0, said="warning: a word\n")
    assert (0, "crates are there", True) == (process.returncode, probe, asked_to_install(tmp_path))


def test_the_reference_is_installed_without_asking_cargo_and_an_earlier_twin_stays(tmp_path):
    process, probe = installed(tmp_path, "--reference", status=101, said=REFUSED["no-manifest"])
    assert (0, "", "", None) == (process.returncode, process.stdout, process.stderr, probe)
    assert asked_to_install(tmp_path)
    assert (tmp_path / "src" / "apportion" / "_native.old.so").exists()


@pytest.mark.parametrize(("status", "said"), [(0, ""), (101, UNREACHABLE), (101, REFUSED["stale-lock"])])
def test_neither_an_earlier_build_nor_a_file_of_the_probe_is_left(status, said, tmp_path):
    installed(tmp_path, status=status, said=said)
    assert [] == list((tmp_path / "src" / "apportion").iterdir())
    assert {"native", "programs", "src"} == {path.name for path in tmp_path.iterdir()}
