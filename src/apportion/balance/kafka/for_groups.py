"""Assignors for groups of this library: a group is one topic, and its members own their previous partitions."""

from collections.abc import Callable

from apportion.balance.api import GroupView, Owners
from apportion.balance.kafka.subscription import Assigned, Partition, Subscription

_GENERATION = 1


def owners_by(assign: Callable[[dict[str, int], list[Subscription]], Assigned]) -> Callable[[GroupView], Owners]:
    """Return the `owners` function of an assignor.

    A withheld partition belongs to its taker here, because the group hands it over in its own way.
    """

    def owners(view: GroupView) -> Owners:
        """Return the owner of each partition."""
        found = assign({view.name: view.partitions}, _members(view))
        waiting = {partition: to for partition, (_, to) in found.withheld.items()}
        named = found.layout.partitions()
        return tuple(waiting.get(each) or found.by_partition.get(each) for each in named)

    return owners


def _members(view: GroupView) -> list[Subscription]:
    owned: dict[str, list[Partition]] = {node.id: [] for node in view.topology if node.weight > 0}
    if view.previous is not None:
        for partition, holders in view.previous.preference_lists.items():
            for holder in holders[:1]:
                if holder in owned:
                    owned[holder].append((view.name, int(partition)))
    return [
        Subscription(node_id, topics=[view.name], owned=theirs, generation=_GENERATION)
        for node_id, theirs in owned.items()
    ]
