"""The soak runs, goes on where it stopped, and a history that breaks an invariant ends it with its seed."""

from types import SimpleNamespace

import pytest

from apportion import Table, balance
from tests import invariants, soak


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_a_history_keeps_every_invariant(seed):
    soak.check_history(seed)


class Clock:
    """Elapsed seconds that pass whenever one looks."""

    def __init__(self, step):
        self.now, self.step = 0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_seeds_are_consumed_in_order_over_several_soaks(tmp_path, capsys, monkeypatch):
    checked = []
    monkeypatch.setattr(soak, "check_history", checked.append)
    for _ in range(2):
        assert 0 == soak.main(["--minutes", "1"], state=tmp_path / "s" / "next", elapsed=Clock(20))
    assert [0, 1, 2, 3, 4, 5] == checked
    assert "6\n" == (tmp_path / "s" / "next").read_text()
    lines = ["soak: 3 histories checked, seeds 0 .. 2", "soak: 3 histories checked, seeds 3 .. 5"]
    assert lines == capsys.readouterr().out.splitlines()


def test_a_failing_history_ends_the_soak_with_its_seed_which_stays_the_next(tmp_path, capsys, monkeypatch):
    def check(seed):
        assert seed < 1, "planted"

    monkeypatch.setattr(soak, "check_history", check)
    state = tmp_path / "next"
    assert 1 == soak.main(["--minutes", "1"], state=state, elapsed=Clock(1))
    assert "1\n" == state.read_text()
    assert "soak: seed 1 failed; again: python -m tests.soak --seed 1" in capsys.readouterr().out
    assert 1 == soak.main(["--seed", "7"], state=state)
    assert "1\n" == state.read_text()


@pytest.mark.slow
def test_groups_are_soaked_too_and_a_failure_says_how_to_see_it_again(tmp_path, capsys, monkeypatch):
    state = tmp_path / "groups"
    assert 0 == soak.main(["--of", "groups", "--minutes", "1"], state=state, elapsed=Clock(40))
    assert "2\n" == state.read_text()
    broken = SimpleNamespace(violations=["planted"])
    monkeypatch.setattr(soak, "play", lambda seed, scenario: broken)
    assert 1 == soak.main(["--of", "groups", "--seed", "7"])
    printed = capsys.readouterr()
    assert "planted; again: python -m apportion.sim --scenario group 7" in printed.err
    assert "again: python -m tests.soak --seed 7 --of groups" in printed.out


def soak_some():
    for seed in range(20):
        soak.check_history(seed)


def test_a_diff_that_misses_a_range_does_not_survive_the_soak(monkeypatch):
    exact = Table.diff
    monkeypatch.setattr(Table, "diff", lambda old, new: exact(old, new)[:-1])
    with pytest.raises(AssertionError):
        soak_some()


def test_a_balancer_without_memory_does_not_survive_the_soak(monkeypatch):
    even = balance.slots

    def forgetful(topology, previous=None, count=None):
        return even(topology, count=count or len(previous.rows))

    monkeypatch.setattr(balance, "slots", forgetful)
    with pytest.raises(AssertionError):
        soak_some()


def test_the_invariants_of_slots_see_a_single_slot_too_many():
    assignment = balance.slots(soak.worlds.Topology(["a", "b"]), count=4)
    skewed = soak.Assignment(topology=assignment.topology, rows=((0,), (0,), (0,), (1,)))
    invariants.slots_are_even(assignment)
    with pytest.raises(AssertionError, match="a: 3 of 2"):
        invariants.slots_are_even(skewed)
