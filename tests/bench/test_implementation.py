"""What a run measures is said, and what would mislead is refused."""

import os
import subprocess
import sys

import pytest

from apportion import native
from bench.elsewhere import ROOT
from bench.implementation import refusal
from tests.native.comparing import needs_twin

# A figure that the reference has not: nothing is timed.
QUICK = ["--only", "arrow"]
RUN = "from bench.__main__ import main; raise SystemExit(main({arguments!r}))"


def bench(*arguments, before="", **environment):
    """Return a finished run of the suite, in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if name != native.SWITCH}
    return subprocess.run(
        [sys.executable, "-c", f"import sys, types\n{before}\n{RUN.format(arguments=[*QUICK, *arguments])}"],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("in_use", "profile", "reference", "said"),
    [
        (True, "release", False, None),
        (True, "debug", False, "the native twin has the debug profile"),
        (False, None, False, "no native twin to measure: why"),
        (False, None, True, None),
        (True, "release", True, "start again"),
        (True, "debug", True, "start again"),
    ],
)
def test_only_an_optimised_twin_is_measured_unless_the_reference_was_asked_for(in_use, profile, reference, said):
    found = refusal(in_use=in_use, detail="why", profile=profile, reference=reference)
    assert (said is None, True) == (found is None, (said or "") in (found or ""))


@pytest.mark.parametrize(
    ("before", "environment", "said"),
    [
        ("sys.modules['apportion._native'] = None", {}, "no native twin to measure: the native twin was not built"),
        ("", {"APPORTION_NATIVE": "0"}, "no native twin to measure: APPORTION_NATIVE=0"),
        (
            "from apportion import native; native.extension = types.SimpleNamespace(PROFILE='debug')",
            {},
            "the native twin has the debug profile",
        ),
    ],
)
def test_a_run_without_an_optimised_twin_is_refused_and_measures_nothing(before, environment, said):
    run = bench(before=before, **environment)
    assert (1, "") == (run.returncode, run.stdout)
    assert f"bench: {said}" in run.stderr
    assert "--reference" in run.stderr


@pytest.mark.parametrize(
    "before", [pytest.param("", marks=pytest.mark.slow), "sys.modules['apportion._native'] = None"]
)
def test_the_reference_is_measured_when_asked_for_and_meets_no_goal_of_the_twin(before):
    run = bench("--reference", before=before)
    assert (0, True) == (run.returncode, run.stdout.startswith("implementation: reference (APPORTION_NATIVE=0)\n"))
    assert "goals met: 0, missed: 0; not measured: 6; could not run: 0" in run.stdout


@pytest.mark.slow
@needs_twin
def test_a_run_says_which_implementation_and_machine_it_measures():
    lines = bench().stdout.splitlines()
    assert f"implementation: native ({native.extension.PROFILE} profile)" == lines[0]
    assert {"python", "cpu", "cpus"} <= {line.partition(":")[0] for line in lines}
