"""Play seeds of the scenarios by which `apportion` tests itself: `python -m apportion.sim [--scenario group] SEED`."""

import sys

from apportion.sim.source_tree import scenarios


def _play() -> None:
    try:
        play = scenarios("__main__").to_the_end
    except ImportError as error:
        sys.exit(f"error: {error}")
    sys.exit(play())


if __name__ == "__main__":
    _play()
