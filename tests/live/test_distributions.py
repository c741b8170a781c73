"""Distributions as users get them: two builds agree to the bit, and every interpreter installs and runs them."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from distributions.source import ROOT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a distribution is built from a commit"),
    pytest.mark.timeout(900),
]
BUILDERS = {
    "one": {"umask": 0o022, "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"},
    "other/place": {"umask": 0o077, "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "77"},
}


def run(command, **options):
    """Run a command that has to end well and to say nothing of errors."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """Return the folders of the files of two builds of the last commit."""
    place = tmp_path_factory.mktemp("builds")
    made = {}
    for name, differing in BUILDERS.items():
        environment = os.environ | differing
        umask = environment.pop("umask")
        subprocess.run(["git", "clone", "-q", ROOT, place / name], check=True, umask=umask)
        environment.pop("PYTHONPATH", None)
        command = [sys.executable, "-m", "distributions", "--to", place / name / "dist"]
        run(command, cwd=place / name, env=environment, umask=umask)
        made[name] = place / name / "dist"
    return made


def test_two_builds_in_other_folders_umasks_locales_and_zones_agree_to_the_bit(builds):
    one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in builds.values())
    assert (3, sorted(one)) == (len(one), sorted(other))
    assert [] == [name for name in one if one[name] != other[name]]


def test_no_file_names_a_folder_of_its_builder(builds):
    (native,) = builds["one"].glob("*-abi3-*.whl")
    with zipfile.ZipFile(native) as file:
        extension = file.read("apportion/_native.abi3.so")
        assert f"{Path.home()}".encode() not in extension
        assert os.environ.get("CARGO_HOME", f"{Path.home()}").encode() not in extension
        assert f"{builds['one'].parent}".encode() not in extension
        assert b"apportion-dist-" not in extension
        assert any(name.endswith(".cdx.json") for name in file.namelist())


def test_every_interpreter_from_3_11_to_3_14_installs_the_wheels_and_every_extra_acts(builds):
    command = [sys.executable, "-m", "distributions.pythons", "--quick", "--of", builds["one"]]
    run(command, cwd=ROOT)
