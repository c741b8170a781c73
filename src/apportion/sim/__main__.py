"""Play seeds of the scenarios by which `apportion` tests itself: `python -m apportion.sim [--scenario group] SEED`.

The scenarios are in the source tree, `tests/sim/scenarios`, and in no wheel.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    source = Path(__file__).parents[3]
    if not (source / "tests" / "sim" / "scenarios").is_dir():
        sys.exit("error: the scenarios are in the source tree of apportion alone.\nRun this in a checkout.")
    sys.path.insert(0, str(source))
    runpy.run_module("tests.sim.scenarios", run_name="__main__")
