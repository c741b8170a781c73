"""Ceph's CRUSH as an entrant, if its program `crushtool` is on the path: one pool per resource.

The map has a straw2 bucket per zone. A rule takes each replica from another zone, with the tunables that Ceph has
used since Jewel. A node that is down counts as "out" in Ceph's sense: it has weight 0 in the test, and stays in the
map. Nodes and zones keep their numbers, because CRUSH hashes these numbers.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from apportion.balance.evaluation import Cluster, Entrant, Placed, State
from apportion.balance.evaluation.entrants import laid_out
from apportion.errors import CannotPlace
from apportion.model.topology import Node

NAME = "ceph.crush"
PROGRAM = "crushtool"
SECONDS = 120

_TUNABLES = {
    "choose_local_tries": 0,
    "choose_local_fallback_tries": 0,
    "choose_total_tries": 50,
    "chooseleaf_descend_once": 1,
    "chooseleaf_vary_r": 1,
    "chooseleaf_stable": 1,
    "straw_calc_version": 1,
}
_LINE = re.compile(r"CRUSH rule 0 x (\d+) \[([\d,]*)\]")


@dataclass(frozen=True, slots=True)
class Numbers:
    """The number of each node and of each zone, present or past."""

    nodes: dict[str, int] = field(default_factory=dict)
    zones: dict[Hashable, int] = field(default_factory=dict)

    def with_those_of(self, state: State) -> "Numbers":
        """Return these numbers, and numbers for the new nodes and zones of a state."""
        nodes, zones = dict(self.nodes), dict(self.zones)
        for node in state.topology:
            nodes.setdefault(node.id, len(nodes))
            zones.setdefault(node.fault_domain(), len(zones))
        return Numbers(nodes, zones)


def absent() -> str:
    """Return the reason why the entrant cannot take part; an empty text if it can."""
    return "" if shutil.which(PROGRAM) else f"{PROGRAM} is not on the path (Debian: ceph-base)"


def _place(cluster: Cluster, state: State, before: Placed | None) -> Placed:
    known = before.memory if before is not None and isinstance(before.memory, Numbers) else Numbers()
    numbers = known.with_those_of(state)
    ids = {number: node_id for node_id, number in numbers.nodes.items()}
    out = [word for node_id in sorted(state.down) for word in ("--weight", str(numbers.nodes[node_id]), "0")]
    resources = {}
    with tempfile.TemporaryDirectory(prefix="apportion-") as folder:
        compiled = compiled_map(Path(folder), state, numbers)
        for pool, (name, resource) in enumerate(cluster.resources.items(), 1):
            names = cluster.partitions(name)
            asked = ("--rule", "0", "--num-rep", str(resource.replicas), "--min-x", "0", "--max-x", str(len(names) - 1))
            printed = run(
                PROGRAM, "-i", str(compiled), "--test", "--show-mappings", "--pool-id", str(pool), *asked, *out
            )
            lists = {
                names[int(place)]: tuple(ids[int(number)] for number in owners.split(",") if number)
                for place, owners in _LINE.findall(printed)
            }
            resources[name] = laid_out(cluster, state, name, lists)
    return Placed(resources=resources, memory=numbers)


def compiled_map(folder: Path, state: State, numbers: Numbers) -> Path:
    """Write the compiled map of a state to a folder; return its path."""
    source, compiled = folder / "map.txt", folder / "map"
    source.write_text("\n".join(_map(state, numbers)))
    run(PROGRAM, "-c", str(source), "-o", str(compiled))
    return compiled


def run(program: str, *arguments: str, seconds: float = SECONDS) -> str:
    """Return the output of a program of Ceph; if it fails, raise `CannotPlace` with its message."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program with options of ours
            [program, *arguments], capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotPlace(f"{program} took more than {seconds} s.", "Leave it out, or take fewer nodes.") from error
    if done.returncode:
        raise CannotPlace(f"{program} refuses the cluster: {done.stderr.strip()[:200]}.", "Leave it out.")
    return done.stdout


def _map(state: State, numbers: Numbers) -> Iterator[str]:
    """Yield the lines of the map in the format of its compiler."""
    device = numbers.nodes
    yield from (f"tunable {name} {value}" for name, value in _TUNABLES.items())
    yield from (f"device {device[node.id]} osd.{device[node.id]}" for node in state.topology)
    yield from ("type 0 osd", "type 1 zone", "type 2 root")
    zones: dict[int, list[Node]] = {}
    for node in state.topology:
        zones.setdefault(numbers.zones[node.fault_domain()], []).append(node)
    sums = []
    for number, members in zones.items():
        items = [f"  item osd.{device[node.id]} weight {node.weight:.5f}" for node in members]
        yield from (f"zone zone{number} {{", f"  id -{number + 2}", "  alg straw2", "  hash 0", *items, "}")
        sums.append(f"  item zone{number} weight {sum(node.weight for node in members):.5f}")
    yield from ("root all {", "  id -1", "  alg straw2", "  hash 0", *sums, "}")
    yield from ("rule spread {", "  id 0", "  type replicated", "  min_size 1", "  max_size 100", "  step take all")
    yield from ("  step chooseleaf firstn 0 type zone", "  step emit", "}", "")


ENTRANT = Entrant(NAME, _place)
