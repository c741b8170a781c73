"""`optimal` held to what others find: HiGHS for the fewest moves, and a count of zones shared without need.

The cases are those of the tests: 20 nodes, 200 partitions x 3, zones of unequal size and nodes of unequal weight, for
HiGHS; small clusters of every kind for the zones, where every answer is also verified. Case n is made from seed n.
"""

from collections.abc import Callable
from importlib import import_module
from random import Random

from apportion import balance
from bench.row import Row, not_measured

HIGHS_CASES, ZONE_CASES = 300, 10_000


def rows() -> list[Row]:
    """Run all cases of both."""
    return [_highs_row(), _zones_row()]


def _highs_row() -> Row:
    name = f"optimal beside HiGHS, {HIGHS_CASES} random cases, 20 nodes, 200 x 3"
    try:
        oracle = import_module("tests.balance.test_optimal_against_highs")
    except ModuleNotFoundError as error:
        return not_measured(name, f"{error.name} is not installed")
    equal = 0
    for seed in range(HIGHS_CASES):
        before, topology = oracle.case(Random(seed))
        after = balance.optimal(oracle.PARTITIONS, oracle.REPLICAS, topology, previous=before)
        fewest, _, _ = oracle.fewest_moves(before, topology)
        equal += after.certificate is not None and after.certificate.home.moves == fewest
    return Row(
        name=name,
        value=equal,
        shown=f"equal optimum in {equal} of {HIGHS_CASES}, seeds 0..{HIGHS_CASES - 1}",
        goal="equal in all",
        met=equal == HIGHS_CASES,
    )


def _zones_row() -> Row:
    check: Callable[[int], object] = import_module("tests.balance.small").check
    violations = sum(not _holds(check, seed) for seed in range(ZONE_CASES))
    return Row(
        name="optimal, zone violations in generated cases",
        value=violations,
        shown=f"{violations} of {ZONE_CASES}, seeds 0..{ZONE_CASES - 1}",
        goal="0",
        met=violations == 0,
    )


def _holds(check: Callable[[int], object], seed: int) -> bool:
    try:
        check(seed)
    except AssertionError as error:
        print(f"seed {seed}: {error}")
        return False
    return True
