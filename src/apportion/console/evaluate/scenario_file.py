"""Scenario files: a cluster of your own as TOML, and the events on it; `docs/balance/evaluate.md` shows one.

Promises: a misspelt key or name is an error that names the nearest one; every error names the file.
"""

from dataclasses import dataclass
from pathlib import Path

from apportion.balance.evaluation import NAMES, Cluster, Scenario, State
from apportion.balance.resources import Resource
from apportion.console.files.topology_file import check_keys, node_of, read_toml, tables_of, topology_of
from apportion.errors import ApportionError, InvalidInput
from apportion.model.topology import Topology, check_name

WHAT = "scenario file"
MAX_RESOURCES = 10_000

Table = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile:
    """The choices of a file; None where the file leaves a choice open."""

    cluster: Cluster
    own: tuple[Scenario, ...]
    balancers: tuple[str, ...] | None
    scenarios: tuple[str, ...] | None


def read_scenario(path: Path) -> ScenarioFile:
    """Return the choices of a scenario file."""
    document = read_toml(path, what=WHAT, hint="Write [[node]] for each node, and [[resource]] for each resource.")
    try:
        return _asked(document)
    except ApportionError as error:
        error.within(str(path))
        raise


def _asked(document: Table) -> ScenarioFile:
    known = ("cluster", "epoch", "node", "resource", "scenario", "scenarios", "balancers")
    check_keys(f"key of the {WHAT}", document, known)
    topology = topology_of(document, what=WHAT)
    resources: dict[str, Resource] = {}
    for table in tables_of(document, "resource", what=WHAT)[: MAX_RESOURCES + 1]:
        name, resource = _resource(table)
        if name in resources:
            raise InvalidInput("name of a resource", name, "each once", "Rename one of the two.")
        resources[name] = resource
    if len(resources) > MAX_RESOURCES:
        raise InvalidInput("resources", len(resources), f"at most {MAX_RESOURCES}", "Leave some out.")
    own = tuple(_scenario(table, topology) for table in tables_of(document, "scenario", what=WHAT))
    for place, each in enumerate(own):
        if each.name in NAMES or each.name in (other.name for other in own[:place]):
            raise InvalidInput("name of a scenario", each.name, "a name of its own", "Rename it.")
    return ScenarioFile(
        cluster=Cluster(name=topology.cluster or "your cluster", topology=topology, resources=resources),
        own=own,
        balancers=_names(document, "balancers"),
        scenarios=_names(document, "scenarios"),
    )


def _resource(table: Table) -> tuple[str, Resource]:
    check_keys("key of a [[resource]]", table, ("name", "partitions", "replicas"))
    name = check_name("name of a resource", table.get("name"))
    # The cluster checks the numbers, at run time.
    return name, Resource(table.get("partitions"), table.get("replicas", 1))  # type: ignore[arg-type]


def _scenario(table: Table, topology: Topology) -> Scenario:
    check_keys("key of a [[scenario]]", table, ("name", "down", "remove", "weight", "add"))
    name = check_name("name of a scenario", table.get("name"))
    if "," in name:
        hint = "Rename it; --scenarios separates names by commas."
        raise InvalidInput("name of a scenario", name, "a name without a comma", hint)
    if len(table) == 1:
        hint = "Name the change of this scenario."
        raise InvalidInput(f"scenario {name}", "empty", "down, remove, weight or add", hint)
    after = topology.without(*(_names(table, "remove") or ()))
    weights = table.get("weight", {})
    if not isinstance(weights, dict):
        hint = "Write weight = { db-01 = 2 }."
        raise InvalidInput(f"weight of scenario {name}", weights, "a table of ids and weights", hint)
    for node_id, weight in weights.items():
        after = after.reweight(node_id, weight)
    after = after.add(*(node_of(each) for each in tables_of(table, "add", what=f"scenario {name}")))
    down = frozenset(after.ids[after.index(node_id)] for node_id in _names(table, "down") or ())
    return Scenario.change(name, State(topology=topology), State(topology=after, down=down))


def _names(table: Table, key: str) -> tuple[str, ...] | None:
    if key not in table:
        return None
    listed = table[key]
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise InvalidInput(f"{key} in the {WHAT}", listed, "a list of names", f'Write {key} = ["..."].')
    return tuple(listed)
