"""What was acknowledged survives a power cut at any point; and the test would see it if it did not."""

import os

import pytest

from tests.stores import powercut

SEED = int(os.environ.get("POWER_CUT_SEED", "20260701"))
NORMAL = {"PRAGMA synchronous=FULL": "PRAGMA synchronous=NORMAL"}
UNSYNCED_DIRECTORY = {"PRAGMA synchronous=EXTRA": "PRAGMA synchronous=FULL"}


def summary(found: dict[str, list[str]]) -> str:
    return "; ".join(f"{name}: {len(each)} cuts, {sum(map(bool, each))} bad" for name, each in found.items())


def bad(found: dict[str, list[str]]) -> list[str]:
    return [f"{name}: {each}" for name, verdicts in found.items() for each in verdicts if each]


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_at_some_points(tmp_path):
    assert [] == bad(powercut.survey(SEED, tmp_path, each=1, every=8))


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_at_five_thousand_points(tmp_path):
    found = powercut.survey(SEED, tmp_path, each=2)
    print(f"\npower cuts of sqlite, POWER_CUT_SEED={SEED}: {summary(found)}")
    assert [] == bad(found)
    assert sum(map(len, found.values())) >= 5_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "kind"), [(NORMAL, "lost"), (UNSYNCED_DIRECTORY, "not readable")], ids=["normal", "directory"]
)
def test_a_planted_defect_is_seen_in_every_workload(tmp_path, planted, kind):
    found = powercut.survey(SEED, tmp_path, each=1, every=4, instead=planted)
    assert [] == [name for name, verdicts in found.items() if not any(each.startswith(kind) for each in verdicts)]
