"""Contender: something that routes a `str` key to a node, ours or a peer's, and the check that it really does.

Promises: what passes `check` answered 1 000 keys (half of them not ASCII) with nodes it was given, each node at least
once, alike from two builds, of which one met the nodes in reverse, and as its documentation says, where it says it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from bench.fleet import node_names, text_keys

Route = Callable[[str], str]

CHECKED_KEYS = 1000
CHECKED_NODES = 10


class NotSane(Exception):
    """A contender's answers are not those of any sensible placement, so its timings mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A name, the versions behind it, and the function from a list of nodes to what routes a key over them.

    `absent` says why it cannot run here. `documented` builds what routes by the peer's documented rule, slowly, without
    the peer's own search.
    """

    name: str
    version: str
    build: Callable[[list[str]], Route]
    absent: str = ""
    documented: Callable[[list[str]], Route] | None = None

    def check(self) -> None:
        """Raise `NotSane` if the answers are not sane."""
        nodes, keys = node_names(CHECKED_NODES), text_keys(CHECKED_KEYS)
        route = self.build(nodes)
        answers = [route(key) for key in keys]
        if foreign := set(answers).difference(nodes):
            raise NotSane(f"{self.name} answers with {sorted(map(repr, foreign))[:3]}, which no node is called")
        if unused := set(nodes).difference(answers):
            raise NotSane(f"{self.name} gives no key of {CHECKED_KEYS} to {sorted(unused)}")
        again = self.build(nodes[::-1])
        if answers != [route(key) for key in keys] or answers != [again(key) for key in keys]:
            raise NotSane(f"{self.name} answers differently when asked or built again")
        if self.documented and (other := self._undocumented(keys, answers, self.documented(nodes))):
            raise NotSane(f"{self.name} answers {other[:3]} otherwise than it documents")

    def _undocumented(self, keys: list[str], answers: list[str], documented: Route) -> list[str]:
        return [key for key, answer in zip(keys, answers, strict=True) if answer != documented(key)]


def installed(package: str) -> str:
    """Return the name and version of a package, or an empty string where it is not installed."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""


def missing(package: str) -> str:
    """Return why a contender of this package cannot run here; an empty string if it can."""
    return "" if installed(package) else f"{package} is not installed; `make bench` installs it"
