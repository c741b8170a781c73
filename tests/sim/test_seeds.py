"""Seeds: a thousand of them hold every invariant and come to rest; a seed is the same run in every process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import apportion
from apportion.sim.invariants import store as invariants
from apportion.sim.world.nemesis import _ASKED_FOR, BLOWS
from tests.sim.scenarios.__main__ import has_canary, main
from tests.sim.scenarios.scenario import Report, play

IN_A_CHECKOUT = pytest.mark.skipif(
    not Path(apportion.__file__).is_relative_to(Path(__file__).parents[2]), reason="the scenarios are in no wheel"
)
SEEDS = 1_040
REPEATED = 200
SQLITE_SEEDS, SQLITE_REPEATED = 60, 10


def start(first, last, *options, hash_seed):
    """Play seeds in a process of its own, whose strings hash differently."""
    command = [sys.executable, "-m", "apportion.sim", "--seeds", f"{first}..{last}", "--hashes", *options]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def played(*processes, timeout=280):
    """Return the trace hash by seed, and all that was printed; both processes run at once."""
    printed = "".join(process.communicate(timeout=timeout)[0] for process in processes)
    assert [] == [line for line in printed.splitlines() if line.startswith("FAILED")]
    assert [0] * len(processes) == [process.returncode for process in processes]
    return {int(seed): digest for seed, digest in re.findall(r"^(\d+) ([0-9a-f]{16})$", printed, re.MULTILINE)}, printed


LOST = ("connection", "reply", "request")
_BLOWS = (BLOWS.keys() - _ASKED_FOR - {"lost commit"}) | {f"commit lost: its {part}" for part in LOST}
_FAULTS = ["request lost", "reply lost", "request late", "request duplicated", "stale scan", "watch gap"]
_MOVES = ["claim", "takeover", "transfer", "rebump", "fenced off", "answer: Unknown", "commit: LeaseLost"]
_ENDS = ["watch: Compacted", "watch: StoreWentBack", "commit: StoreWentBack", "session ends: SessionOver"]
RARE = [*sorted(_BLOWS), *_FAULTS, *_MOVES, *_ENDS]  # must happen in a thousand seeds


@pytest.mark.slow
def test_a_thousand_seeds_hold_reach_what_is_rare_and_are_the_same_under_another_hash_seed():
    half = SEEDS // 2
    hashes, printed = played(start(0, half - 1, hash_seed=1), start(half, SEEDS - 1, hash_seed=2))
    assert list(range(SEEDS)) == sorted(hashes)
    assert len(set(hashes.values())) == SEEDS
    assert [] == [name for name in RARE if f"{name} " not in printed]
    half = REPEATED // 2
    again, _ = played(start(0, half - 1, hash_seed=77), start(half, REPEATED - 1, hash_seed=78))
    assert {seed: hashes[seed] for seed in range(REPEATED)} == again


@pytest.mark.slow
def test_the_shipped_sqlite_store_holds_in_the_world_too():
    half = SQLITE_SEEDS // 2
    sqlite = ("--store", "sqlite")
    hashes, _ = played(start(0, half - 1, *sqlite, hash_seed=1), start(half, SQLITE_SEEDS - 1, *sqlite, hash_seed=2))
    again, _ = played(start(0, SQLITE_REPEATED - 1, *sqlite, hash_seed=3))
    assert list(range(SQLITE_SEEDS)) == sorted(hashes)
    assert {seed: hashes[seed] for seed in range(SQLITE_REPEATED)} == again


@pytest.mark.parametrize("seed", range(5))  # the thousand are played too
def test_a_seed_holds_and_repeats(seed):
    report = play(seed)
    assert () == report.violations
    assert report.digest == play(seed).digest
    assert report.seconds > 12


@pytest.mark.slow
def test_faults_of_many_kinds_come_in_a_few_seeds():
    kinds = set().union(*(play(seed).injected for seed in range(20)))
    assert len(kinds) >= 20


class Sour(invariants.Invariant):
    """Breaks at the third time that a watch is away for a while."""

    def began(self, fact):
        if fact.incarnation == 3:
            self.broken("a third life")


def test_a_failure_is_shrunk_to_the_faults_it_needs():
    from tests.sim.scenarios.shrink import shortest

    failing = (seed for seed in range(200) if play(seed, invariants=[Sour]).violations)
    seed = next(failing)
    failed = play(seed, invariants=[Sour])
    report = shortest(failed, lambda faults: play(seed, invariants=[Sour], fault_limit=faults))
    needed = report.injected.total()
    assert report.violations
    assert 2 <= report.injected["store crash"] + report.injected["store restore"]
    assert needed <= failed.injected.total()
    assert not play(seed, invariants=[Sour], fault_limit=needed - 1).violations


def test_the_canary_is_found_and_reported_on_its_seeds_only(capsys):
    singing = [seed for seed in range(2_000) if has_canary(seed)]
    assert 10 <= len(singing) <= 35
    first = singing[0]
    assert 1 == main(["--seeds", f"{first - 3}..{first + 3}", "--canary"])
    printed = capsys.readouterr().out
    assert [str(first)] == re.findall(r"^FAILED seed (\d+): Canary", printed, re.MULTILINE)
    assert f"python -m apportion.sim {first} --canary" in printed
    assert "7 seeds, 1 failed" in printed


def test_the_printed_command_tells_the_story_of_a_seed(capsys):
    seed = next(seed for seed in range(2_000) if has_canary(seed))
    assert 1 == main([str(seed), "--canary"])
    printed = capsys.readouterr().out
    assert "BROKEN: Canary" in printed
    assert 0 == main([str(seed)])
    printed = capsys.readouterr().out
    assert "from now on nothing fails" in printed
    assert f"trace {play(seed).digest}" in printed


@pytest.mark.parametrize("arguments", [["--seeds", "1-3"], ["--only", "RevisionsGro"], ["--store", "mysql"]])
def test_what_cannot_be_played_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert "error" in capsys.readouterr().err


@IN_A_CHECKOUT
def test_in_a_checkout_the_scenarios_are_played_by_their_former_name():
    assert (play, Report) == (apportion.sim.play, apportion.sim.Report)
    assert not hasattr(apportion.sim, "plays")


@pytest.mark.slow
@IN_A_CHECKOUT
def test_a_reader_that_has_seen_enough_makes_no_traceback():
    command = [sys.executable, "-m", "apportion.sim", "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as playing:
        playing.stdout.close()
        said = playing.stderr.read()
    assert (1, "") == (playing.returncode, said)


@pytest.mark.slow
def test_without_the_source_tree_the_command_says_where_the_scenarios_are(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "apportion").symlink_to(Path(apportion.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "lib")}
    command = [sys.executable, "-m", "apportion.sim", "7"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "Run this in a checkout." in done.stderr
