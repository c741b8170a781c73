"""Which implementation answers, why, and that it is said; and that no build goes without the twin by accident."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from apportion import __version__, native
from apportion.native import TwinState
from tests.native.comparing import needs_twin

PROBE = Path(sys.prefix) / "native.probe"
CRATES = "crates are there"
DOCTOR = "from apportion.console.doctor.command import doctor; raise SystemExit(doctor(json=True))"
MODULES = "import sys, types; sys.modules['apportion._native'] = "


def fault(state, probe, *, ci):
    """Return the fault of a build with its twin in this state, if there is one."""
    if (
        not ci
        or state in {TwinState.IN_USE, TwinState.SWITCHED_OFF}
        or probe in {"no cargo", "old cargo", "no crates index"}
    ):
        return None
    return f"the native twin is {state.value}, and the probe before its build said {probe!r}"


def test_a_build_of_the_ci_has_the_twin_unless_crates_could_not_be_had():
    probe = PROBE.read_text().strip() if PROBE.exists() else "nothing"
    assert fault(native.STATE, probe, ci=os.environ.get("CI") == "true") is None


@pytest.mark.parametrize(
    ("state", "probe", "ci", "is_fault"),
    [
        (TwinState.IN_USE, CRATES, True, False),
        (TwinState.SWITCHED_OFF, CRATES, True, False),
        (TwinState.ABSENT, CRATES, True, True),
        (TwinState.ABSENT, CRATES, False, False),
        (TwinState.ABSENT, "no crates index", True, False),
        (TwinState.ABSENT, "no cargo", True, False),
        (TwinState.ABSENT, "old cargo", True, False),
        (TwinState.ABSENT, "broken", True, True),
        (TwinState.ABSENT, "nothing", True, True),
        (TwinState.UNLOADABLE, CRATES, True, True),
        (TwinState.OTHER_VERSION, CRATES, True, True),
    ],
)
def test_an_absent_twin_is_a_fault_where_it_could_have_been_built(state, probe, ci, is_fault):
    assert is_fault == bool(fault(state, probe, ci=ci))


def finished(code, **environment):
    """Return a fresh process that has run some code."""
    inherited = {name: value for name, value in os.environ.items() if name != native.SWITCH}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def implementation(code="", **environment):
    """Return the report of `doctor` on the implementation: its name, the advice, the profile, and the exit code."""
    process = finished(f"{code}\n{DOCTOR}", **environment)
    document = json.loads(process.stdout)
    (check,) = [check for check in document["checks"] if check["name"] == "implementation"]
    return check["found"], check["advice"], document["native"]["profile"], process.returncode


@pytest.mark.slow
@needs_twin
@pytest.mark.parametrize("value", ["1", ""])
def test_the_twin_answers_where_it_is_built(value):
    expected = f"native ({native.extension.PROFILE} profile)", "", native.extension.PROFILE, 0
    assert expected == implementation(APPORTION_NATIVE=value)


@needs_twin
def test_the_twin_is_optimised_and_of_this_version():
    assert ("release", __version__) == (native.extension.PROFILE, native.extension.VERSION)


def test_the_switch_selects_the_reference_and_does_not_load_the_twin():
    assert ("reference (APPORTION_NATIVE=0)", "", None, 0) == implementation(APPORTION_NATIVE="0")
    code = "import sys; from apportion import native; print(native.extension, *sys.modules)"
    extension, *modules = finished(code, APPORTION_NATIVE="0").stdout.split()
    assert ("None", False) == (extension, "apportion._native" in modules)


def test_another_value_of_the_switch_is_refused():
    assert "APPORTION_NATIVE is 'yes', expected one of 0, 1." in finished(DOCTOR, APPORTION_NATIVE="yes").stderr


@pytest.mark.slow
def test_an_absent_twin_is_no_fault():
    assert ("reference (the native twin was not built)", "", None, 0) == implementation(MODULES + "None")


def test_an_absent_twin_is_one_warning_and_a_chosen_reference_is_none():
    asked = "import apportion; [apportion.Ring(['a', 'b']).route('k') for _ in range(2)]"
    said = finished(MODULES + "None; " + asked).stderr
    assert (1, True, True) == (said.count("\n"), "was not built" in said, "APPORTION_NATIVE=0" in said)
    assert "" == finished(asked, APPORTION_NATIVE="0").stderr


@pytest.mark.slow
def test_a_twin_of_another_version_is_not_used_and_doctor_says_so():
    found = implementation(MODULES + "types.SimpleNamespace(VERSION='0.0.9', PROFILE='release')")
    said = (
        "reference (the native twin is of version 0.0.9)",
        "the native twin is not used; install apportion again",
        None,
        1,
    )
    assert said == found


@pytest.mark.slow
def test_a_twin_that_cannot_be_loaded_is_not_used_and_doctor_says_so(tmp_path):
    (tmp_path / "_native.py").write_text("raise ImportError('wrong machine')\n")
    found = implementation(f"import apportion; apportion.__path__.insert(0, {str(tmp_path)!r})")
    said = "reference (the native twin cannot be loaded: wrong machine)"
    assert (said, "the native twin is not used; install apportion again", None, 1) == found
