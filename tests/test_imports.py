"""Importing the library, and routing a first key, loads nothing that neither needs."""

import json
import subprocess
import sys

import pytest

import apportion

# What takes long to import, does I/O, or belongs to an extra. `json` is needed by the codec, `hashlib` by epochs.
DENIED = (
    "apportion.console", "argparse", "asyncio", "concurrent.futures", "cronsim", "cyclopts", "difflib", "email", "http",
    "importlib.metadata", "logging", "mmh3", "msgspec", "multiprocessing", "numpy", "pickle", "rich", "siphash24",
    "socket", "sqlite3", "ssl", "subprocess", "tempfile", "unittest", "urllib.request", "xml", "yaml",
)  # fmt: skip
FIRST_KEY = "from apportion import Ring; Ring(['a']).route('k')"


def modules_of(code):
    """Return the modules that a fresh process has loaded after some code, without those it had before."""
    command = f"import sys; bare = set(sys.modules); {code}; import json; print(json.dumps([*set(sys.modules) - bare]))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("code", ["import apportion", FIRST_KEY], ids=["import", "first key"])
def test_nothing_denied_is_loaded(code):
    assert set() == modules_of(code) & set(DENIED)


def test_importing_the_package_loads_none_of_its_rooms_but_the_note_of_the_first_assignment():
    loaded = {"apportion", "apportion.placement", "apportion.placement.first_assignment"}
    assert loaded == {name for name in modules_of("import apportion") if name.startswith("apportion")}


def test_a_first_key_loads_one_hash_function_only():
    hashes = {"xxhash", "mmh3", "siphash24", "binascii"}
    assert {"xxhash"} == modules_of(FIRST_KEY) & hashes


def test_a_forbidden_module_would_be_seen():
    assert "sqlite3" in modules_of("import apportion, sqlite3")


def test_every_public_name_can_be_had_and_an_unknown_one_cannot():
    import apportion

    assert [] == [name for name in apportion.__all__ if getattr(apportion, name, None) is None]
    assert sorted(apportion.__all__) == list(apportion.__all__)
    assert set(apportion.__all__) <= set(dir(apportion))
    with pytest.raises(AttributeError, match="no attribute 'Rign'"):
        apportion.Rign  # noqa: B018 - the access is the test


def test_the_former_name_of_groups_still_gives_them():
    assert apportion.groups is apportion.cluster
