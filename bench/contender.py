"""Contender: something that routes a `str` key to a node, ours or a peer's, and the check that it really does.

Promises: what passes `check` answered 1 000 keys (half of them not ASCII) with nodes it was given, each node at least
once, and alike from two builds, of which one met the nodes in reverse.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bench.fleet import node_names, text_keys

Route = Callable[[str], str]

CHECKED_KEYS = 1000
CHECKED_NODES = 10


class NotSane(Exception):
    """A contender's answers are not those of any sensible placement, so its timings mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A name, the versions behind it, and the function from a list of nodes to what routes a key over them."""

    name: str
    version: str
    build: Callable[[list[str]], Route]

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
