"""Source tree: the scenarios by which `apportion` tests itself lie in `tests/sim/scenarios`, and in no wheel."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

_SOURCE = Path(__file__).parents[3]


def scenarios(name: str) -> ModuleType:
    """Return a module of the scenarios; `ImportError` outside of a checkout."""
    if not (_SOURCE / "tests" / "sim" / "scenarios").is_dir():
        raise ImportError("The scenarios are in the source tree of apportion alone. Run this in a checkout.")
    if str(_SOURCE) not in sys.path:
        sys.path.insert(0, str(_SOURCE))
    return import_module(f"tests.sim.scenarios.{name}")
