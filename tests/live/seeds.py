"""Seeds of random cases: a fresh one each time, printed, or the one that `ORACLE_SEED` asks for again."""

import os
from secrets import randbits


def fresh_seed(what):
    """Return a seed, and print what it is of: pytest shows that where a test fails."""
    seed = int(os.environ.get("ORACLE_SEED") or randbits(32))
    print(f"{what}: ORACLE_SEED={seed}")
    return seed
