"""How the tests run: Hypothesis repeats the same examples everywhere, unless it is asked to explore."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

pytest_plugins = ["apportion.sim.conformance.plugin"]

# Checked by mypy, never run.
collect_ignore = ["typing"]
