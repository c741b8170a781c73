"""The soak: random histories for as long as one likes, held to the invariants of the tests.

    python -m tests.soak --minutes 5
    python -m tests.soak --seed 1234          one history again
    python -m tests.soak --of groups          simulated groups in the place of topologies; 20 000 take an hour or two

Seeds are consumed in order; the next one is kept in `.soak`, so that a soak goes on where the last one stopped.
A failure prints its seed and ends the soak with exit code 1; the seed that failed is the next one.
"""

import argparse
import sys
import traceback
from itertools import pairwise
from pathlib import Path
from random import Random
from time import monotonic

from apportion import Assignment, Plan, Rendezvous, Ring, Slots, Table, apply, balance, decode, encode, plan
from tests import invariants, worlds
from tests.balance import small
from tests.sim.scenarios.scenario import play

STATE = {"topologies": Path(".soak") / "next", "groups": Path(".soak") / "groups"}
STEPS = 6
CASES = 10
SINGLE = ("add", "without", "heavier", "lighter", "drain")


def main(arguments: "list[str] | None" = None, *, state: "Path | None" = None, elapsed=monotonic) -> int:
    """Run histories until the time is over; return the exit code."""
    options = _parsed(arguments)
    if options.seed is not None:
        return _soaked(options.of, options.seed)
    state = STATE[options.of] if state is None else state
    begin, first = elapsed(), _next_seed(state)
    seed = first
    while seed == first or elapsed() - begin < options.minutes * 60:
        if _soaked(options.of, seed):
            return 1
        seed += 1
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(f"{seed}\n")
    print(f"soak: {seed - first} histories checked, seeds {first} .. {seed - 1}")
    return 0


def _parsed(arguments: "list[str] | None") -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Random histories against the invariants")
    parser.add_argument("--minutes", type=float, default=5, help="how long to go on (at least one history is checked)")
    parser.add_argument("--seed", type=int, default=None, help="check this history only")
    parser.add_argument("--of", choices=sorted(STATE), default="topologies", help="what the histories are of")
    return parser.parse_args(arguments)


def _next_seed(state: Path) -> int:
    return int(state.read_text()) if state.exists() else 0


def _soaked(of: str, seed: int) -> int:
    try:
        (check_group if of == "groups" else check_history)(seed)
    except Exception:  # noqa: BLE001 - whatever breaks a history is a find, and its seed must be printed
        traceback.print_exc()
        print(f"soak: seed {seed} failed; again: python -m tests.soak --seed {seed}{' --of groups' * (of == 'groups')}")
        return 1
    return 0


def check_group(seed: int) -> None:
    """Let a simulated group live through the faults of one seed."""
    report = play(seed, scenario="group")
    assert not report.violations, f"{report.violations[0]}; again: python -m apportion.sim --scenario group {seed}"


def check_history(seed: int) -> None:
    """Build the history of one seed and hold each of its steps to every invariant."""
    random = Random(seed)
    steps = list(worlds.history(random, STEPS))
    vnodes, count, keys = random.randint(1, 20), random.randint(1, 300), worlds.keys_of(random, 30)
    assignments = [balance.slots(steps[0][1], count=count)]
    for _, topology in steps[1:]:
        assignments.append(balance.slots(topology, previous=assignments[-1]))
    for (_, old), (verb, new) in pairwise(steps):
        _check_ring(Ring(old, vnodes=vnodes), Ring(new, vnodes=vnodes), replicas_of(random, old, new))
        _check_function(Rendezvous(old), Rendezvous(new), keys)
        assert verb in SINGLE
    for before, after in pairwise(assignments):
        _check_slots(before, after)
    for number in range(CASES):
        small.check(seed * CASES + number)
    first, last = steps[0][1], steps[-1][1]
    invariants.nothing_strays(plan(Ring(first, vnodes=vnodes), Ring(last, vnodes=vnodes)))
    assert Ring(last, vnodes=vnodes) == Ring(first, vnodes=vnodes).on(last)


def replicas_of(random: Random, *topologies) -> int:
    """Choose a number of replicas that all topologies can place in distinct zones."""
    zones = min(len({node.fault_domain() for node in topology if node.weight}) for topology in topologies)
    return random.randint(1, min(zones, 3))


def _check_ring(old: Ring, new: Ring, replicas: int) -> None:
    for count in {1, replicas}:
        before, after, change = old.table(count), new.table(count), plan(old, new, replicas=count)
        invariants.diff_is_exact(before, after)
        invariants.plan_is_exact(change, before, after)
        invariants.nothing_strays(change)
        for row in set(after.rows):
            invariants.lists_keep_zones_apart(new.topology, [new.topology.ids[index] for index in row])
        assert after == decode(encode(after), Table)
        assert after == apply(decode(encode(change), Plan), before)


def _check_function(old: Rendezvous, new: Rendezvous, keys: "list[str]") -> None:
    invariants.keys_move_only_with_cause(old, new, keys)
    invariants.nothing_strays(plan(old, new, keys))


def _check_slots(before: Assignment, after: Assignment) -> None:
    old, new = Slots(before), Slots(after)
    invariants.slots_are_even(after)
    invariants.slots_moved_fewest(before, after)
    change = plan(old, new)
    invariants.plan_is_exact(change, old.table(), new.table())
    assert change.lower_bound_ratio == change.moved_ratio
    assert after == balance.slots(after.topology, previous=after)
    assert after == decode(encode(after), Assignment)


if __name__ == "__main__":
    sys.exit(main())
