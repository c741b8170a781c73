"""Publication: the controller's process publishes who owns what, so that clients route from memory (see `follow`).

Promises: what is published is what the ownership records said at one moment, under the controller's term: one that has
lost it publishes nothing more. Changes that come close together are one version.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from apportion.cluster.controller import Controller
from apportion.cluster.publishing import Publisher
from apportion.cluster.view import View
from apportion.errors import Conflict, Outdated, StoreUnavailable
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology
from apportion.stores.api import CoordinationStore, Unchanged

PAUSE_SECONDS = 0.2


async def publish_owners(
    store: CoordinationStore, view: View, controller: Controller, turn: Callable[[], Awaitable[None]]
) -> None:
    """Publish the owners under the name of the group, whenever they change while this process is the controller."""
    fresh = partial(Publisher, store, view.keys.group, incarnation=view.incarnation)
    publisher, term, published = fresh(), 0, -1
    while True:
        while controller.term is None or (term, published) == (controller.term, view.moves):
            await turn()
        if controller.term != term:
            publisher, term = fresh(), controller.term
        moves = view.moves
        try:
            await publisher.publish(owners(view), when=[Unchanged(key=view.keys.controller, revision=term)])
            published = moves
        except (Conflict, Outdated, StoreUnavailable):
            publisher = fresh()
        await asyncio.sleep(PAUSE_SECONDS)


def owners(view: View) -> Assignment:
    """Return who owns each partition, as an assignment: nobody, where nobody does."""
    names = [view.owned(partition).ownership.owner for partition in range(view.partitions)]
    topology = Topology({name for name in names if name is not None})
    rows = {name: (place,) for place, name in enumerate(topology.ids)}
    return Assignment(topology=topology, rows=tuple(() if name is None else rows[name] for name in names))
