"""Options of `evaluate` and its scenario file: the clusters, the events on them, and the entrants.

Promises: an impossible choice is refused before any measurement. An absent balancer is named with the reason. If all
scenarios were asked for, a scenario that a cluster cannot have is also named with the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from apportion.balance import catalog
from apportion.balance.evaluation import (
    NAMES,
    SHAPES,
    BalancerTrial,
    Cluster,
    Entrant,
    Refusal,
    Scenario,
    entrant,
    make_scenario,
    production_like,
)
from apportion.console.evaluate import ceph, swift, upmap
from apportion.console.evaluate.scenario_file import ScenarioFile, read_scenario
from apportion.console.options.arguments import whole
from apportion.console.pages.parts import command_line
from apportion.errors import CannotPlace, InvalidInput, UnknownOption

PEERS = {peer.NAME: peer for peer in (swift, ceph, upmap)}
MAX_SEEDS = 1000


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """The options that define an evaluation."""

    preset: Annotated[
        Literal["helix-paper"] | None,
        Parameter(help="The published evaluation of CrushED, on eight generated clusters."),
    ] = None
    scenario: Annotated[Path | None, Parameter(help="File with your own cluster and its scenarios.")] = None
    balancers: Annotated[
        str | None, Parameter(help="Balancers to compare, separated by commas (default: all that place replicas).")
    ] = None
    scenarios: Annotated[str | None, Parameter(help="Scenarios to play, separated by commas (default: all).")] = None
    topologies: Annotated[
        int | None,
        Parameter(converter=whole, help="Clusters of the preset, the smallest first (default: all 8)."),
    ] = None
    seeds: Annotated[
        int, Parameter(converter=whole, help="Number of repeats, each with other clusters or other failing nodes.")
    ] = 1

    def trial(self) -> BalancerTrial:
        """Return the trial that the options define."""
        if (self.scenario is None) == (self.preset is None):
            given = "neither" if self.preset is None else "both"
            raise InvalidInput("--preset, --scenario", given, "one of the two", "Write --preset helix-paper.")
        if not 1 <= self.seeds <= MAX_SEEDS:
            raise InvalidInput("--seeds", self.seeds, f"1 .. {MAX_SEEDS}", "Write --seeds 1, the fastest.")
        file = None if self.scenario is None else read_scenario(self.scenario)
        if self.topologies is not None and (file is not None or not 1 <= self.topologies <= len(SHAPES)):
            raise InvalidInput("--topologies", self.topologies, f"1 .. {len(SHAPES)}, of a preset", "Leave it out.")
        chosen = self._chosen("balancer", file, _known_balancers())
        entrants, absent = _entrants(chosen)
        if not entrants:
            what = "--balancers" if self.balancers is not None else f"{self.scenario}: balancers"
            why = "; ".join(f"{name}: {reason}" for name, reason in absent.items())
            raise InvalidInput(what, ",".join(chosen or ()), "one that is available", f"{why}.")
        skipped: list[Refusal] = []
        clusters = [(cluster, self._happens(cluster, file, seed, skipped)) for cluster, seed in self._clusters(file)]
        return BalancerTrial(clusters=clusters, entrants=entrants, absent=absent, skipped=skipped)

    def command(self, html: Path) -> str:
        """Return the command line that asks for the same evaluation, with a page."""
        options = {
            "--preset": self.preset,
            "--scenario": self.scenario,
            "--balancers": self.balancers,
            "--scenarios": self.scenarios,
            "--topologies": self.topologies,
            "--seeds": None if self.seeds == 1 else self.seeds,
            "--html": html,
        }
        return command_line("evaluate", options)

    def _clusters(self, file: ScenarioFile | None) -> list[tuple[Cluster, int]]:
        seeds = range(1, self.seeds + 1)
        if file is not None:
            name = file.cluster.name
            named = [name if self.seeds == 1 else f"{name}-{seed}" for seed in seeds]
            return [(replace(file.cluster, name=each), seed) for each, seed in zip(named, seeds, strict=True)]
        return [(production_like(shape, seed=seed), seed) for seed in seeds for shape in SHAPES[: self.topologies]]

    def _chosen(self, what: str, file: ScenarioFile | None, known: Sequence[str]) -> Sequence[str] | None:
        """Return the names from the option, or else from the file; None means all. Unknown names are refused."""
        option, listed = (
            (self.balancers, None if file is None else file.balancers)
            if what == "balancer"
            else (self.scenarios, None if file is None else file.scenarios)
        )
        if option is not None:
            listed = tuple(name.strip() for name in option.split(","))
        try:
            _check_names(what, listed, known)
        except InvalidInput as error:
            if option is None:
                error.within(str(self.scenario))
            raise
        return listed

    def _happens(
        self, cluster: Cluster, file: ScenarioFile | None, seed: int, skipped: list[Refusal]
    ) -> list[Scenario]:
        """Return the scenarios of a cluster; if all were asked for, note the impossible ones."""
        own = {} if file is None else {each.name: each for each in file.own}
        known = (*NAMES, *own)
        chosen = self._chosen("scenario", file, known)
        found = []
        for name in known if chosen is None else chosen:
            try:
                found.append(own[name] if name in own else make_scenario(name, cluster.topology, seed=seed))
            except CannotPlace as error:
                if chosen is not None:
                    raise
                skipped.append(Refusal(balancer="", cluster=cluster.name, scenario=name, reason=error.problem))
        return found


def _known_balancers() -> tuple[str, ...]:
    return (*catalog.names(), *PEERS)


def _entrants(chosen: Sequence[str] | None) -> tuple[list[Entrant], dict[str, str]]:
    """Return the entrants, and the absent ones with reasons.

    Balancers of one replica take part only if the caller names them.
    """
    if chosen is None:
        known = _known_balancers()
        chosen = [name for name in known if name in PEERS or catalog.get(name).takes != "subscriptions"]
    absent = {name: why for name in chosen if name in PEERS and (why := PEERS[name].absent())}
    here = [name for name in chosen if name not in absent]
    return [PEERS[name].ENTRANT if name in PEERS else entrant(name) for name in here], absent


def _check_names(what: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
    for place, name in enumerate(names or ()):
        if name not in known:
            raise UnknownOption(what, name, known)
        if name in (names or ())[:place]:
            raise InvalidInput(what, name, "each once", "Drop the repeated ones.")
    if names is not None and not names:
        raise InvalidInput(f"{what}s", "none", "at least one", "Leave it out for all of them.")
