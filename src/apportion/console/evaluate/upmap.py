"""Ceph's balancer as an entrant, if `osdmaptool` is on the path: CRUSH, with exceptions that make its loads even.

The program decides the size of a pool by itself. So all resources with the same number of replicas share one pool.
The program makes the loads of the whole pool even, not those of each resource. The trial asks for a deviation of 1,
the smallest that the program offers. Earlier exceptions are kept. A node that is down is left out of the map: the
program has no other way to show a node that is out.
If zones forbid such a deviation, the program may search for ever. The trial then stops the program, and there is no
measurement. A measurement is also missing if the program leaves an exception for a node that is gone. Ceph's monitors
drop such exceptions, but no program does so without monitors.
"""

import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from apportion.balance.evaluation import Cluster, Entrant, Placed, State
from apportion.balance.evaluation.entrants import laid_out
from apportion.console.evaluate.ceph import PROGRAM as COMPILER
from apportion.console.evaluate.ceph import Numbers, compiled_map, run
from apportion.errors import CannotPlace
from apportion.model.assignment import PreferenceList

NAME = "ceph.upmap"
PROGRAM = "osdmaptool"
MOST_EXCEPTIONS = 100_000
SECONDS = 10

_LINE = re.compile(r"^1\.([0-9a-f]+)\t\[([\d,]*)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Memory:
    """The numbers of nodes and zones, and a map with its exceptions for each number of replicas."""

    numbers: Numbers
    maps: dict[int, bytes] = field(default_factory=dict)


def absent() -> str:
    """Return the reason why the entrant cannot take part; an empty text if it can."""
    missing = next((each for each in (PROGRAM, COMPILER) if not shutil.which(each)), None)
    return f"{missing} is not on the path (Debian: ceph-base)" if missing else ""


def _place(cluster: Cluster, state: State, before: Placed | None) -> Placed:
    memory = before.memory if before is not None and isinstance(before.memory, _Memory) else _Memory(Numbers())
    now = _Memory(memory.numbers.with_those_of(state))
    ids = {number: node_id for node_id, number in now.numbers.nodes.items()}
    lists: dict[str, PreferenceList] = {}
    with tempfile.TemporaryDirectory(prefix="apportion-") as name:
        folder = Path(name)
        crush = compiled_map(folder, State(topology=state.topology.without(*state.down)), now.numbers)
        for replicas in sorted({each.replicas for each in cluster.resources.values()}):
            pool = [
                partition
                for resource, each in cluster.resources.items()
                if each.replicas == replicas
                for partition in cluster.partitions(resource)
            ]
            if len(pool) < len(ids):
                reason = (
                    f"{NAME} needs at least {len(ids)} partitions, one per node; {len(pool)} have {replicas} replicas."
                )
                raise CannotPlace(reason, "Leave it out.")
            path = folder / f"map-{replicas}"
            _write(path, memory.maps.get(replicas), pool=len(pool), replicas=replicas)
            for place, owners in _LINE.findall(_evened(path, crush)):
                lists[pool[int(place, 16)]] = tuple(ids[int(number)] for number in owners.split(",") if number)
            now.maps[replicas] = path.read_bytes()
    gone = {node_id for owners in lists.values() for node_id in owners}.difference(state.live)
    if gone:
        raise CannotPlace(f"{PROGRAM} keeps exceptions for {min(gone)}, which is gone or down.", "Leave it out.")
    resources = {resource: laid_out(cluster, state, resource, lists) for resource in cluster.resources}
    return Placed(resources=resources, memory=now)


def _write(path: Path, known: bytes | None, *, pool: int, replicas: int) -> None:
    """Write the earlier map, or a new one.

    The program gives a pool as many partitions as the map has devices. So the new map gets `pool` devices.
    """
    if known is not None:
        path.write_bytes(known)
        return
    of_pool = ("--with-default-pool", "--pg-bits", "0", "--pgp-bits", "0", "--osd_pool_default_size", str(replicas))
    run(PROGRAM, str(path), "--createsimple", str(pool), *of_pool)


def _evened(path: Path, crush: Path) -> str:
    """Return the owners of each partition after exceptions were added, and keep the exceptions in the map."""
    run(PROGRAM, str(path), "--import-crush", str(crush))
    limits = ("--upmap-max", str(MOST_EXCEPTIONS), "--upmap-deviation", "1")
    commands = str(path.with_suffix(".commands"))
    run(PROGRAM, str(path), "--mark-up-in", "--upmap", commands, *limits, "--save", seconds=SECONDS)
    return run(PROGRAM, str(path), "--mark-up-in", "--test-map-pgs-dump")


ENTRANT = Entrant(NAME, _place)
