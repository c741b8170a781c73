"""Trees: the files into which bugs are planted, and their text with a bug."""

from pathlib import Path

import apportion
from tests.sim.zoo.cage import Bug

PACKAGE = Path(apportion.__file__).parent
ROOT = Path(__file__).parents[3]
TREES = {"apportion": PACKAGE, "tests": ROOT / "tests"}


def changed_text(bug: Bug) -> str:
    """Return the text of a file with the bug in it; an `AssertionError` when the old text is not there, or twice."""
    text = (TREES[bug.tree] / bug.file).read_text()
    count = text.count(bug.old)
    assert 1 == count, f"{bug.name!r}: its old text stands {count} times in {bug.file}; the bug must be planted anew"
    return text.replace(bug.old, bug.new)
