"""The owners as a published table: the controller publishes them, so that clients route from memory (see `follow`).

Promises: a version holds the ownership records of one moment, and is published under the controller's term. A
controller that lost its term publishes nothing more. Changes that come close together are one version. If something
else is published under the name of the group, the owners cannot be published. The controller tells this once and tries
again now and then, and the members go on. A check every half a minute finds a damaged table, and publishes it anew.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from apportion.errors import (
    Conflict,
    InvalidInput,
    Outdated,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.groups.controller.controller import Controller
from apportion.groups.view.view import View
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology
from apportion.runtime.events import Observer, Unpublished
from apportion.stores.api import CoordinationStore, Unchanged
from apportion.tables.publisher import Publisher

PAUSE_SECONDS = 0.2
AGAIN_SECONDS = 5.0
CHECK_SECONDS = 30.0


async def publish_owners(
    store: CoordinationStore,
    view: View,
    controller: Controller,
    turn: Callable[[], Awaitable[None]],
    tell: Observer,
) -> None:
    """Publish the owners under the name of the group at each change, while this process is the controller."""
    fresh = partial(Publisher, store, view.keys.group, incarnation=view.incarnation)
    publisher, term, published, told = fresh(), 0, -1, ""
    loop = asyncio.get_running_loop()
    check_at = loop.time() + CHECK_SECONDS
    while True:
        while controller.term is None or (term, published) == (controller.term, view.moves):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(check_at):
                    await turn()
            if loop.time() >= check_at:
                check_at = loop.time() + CHECK_SECONDS
                published = published if await _is_intact(publisher) else -1
        if controller.term != term:
            publisher, term = fresh(), controller.term
        moves, pause = view.moves, PAUSE_SECONDS
        try:
            await publisher.publish(owners(view), when=[Unchanged(key=view.keys.controller, revision=term)])
            published, told = moves, ""
        except (Conflict, Outdated, StoreUnavailable):
            publisher = fresh()
        except (InvalidInput, StoreDenied) as error:
            publisher, pause = fresh(), AGAIN_SECONDS
            if error.problem != told:
                told, advice = error.problem, "The name of a group is for the table of its owners alone."
                tell(Unpublished(why=f"{told} {error.hint} {advice}", seconds=AGAIN_SECONDS))
        await asyncio.sleep(pause)


async def _is_intact(publisher: Publisher) -> bool:
    """Whether the published table is unchanged; True if the store gives no answer, because a later check asks again."""
    with suppress(StoreDenied, StoreUnavailable, StoreWentBack):
        return await publisher.is_intact()
    return True


def owners(view: View) -> Assignment:
    """Return the owner of each partition as an assignment; a partition without an owner has an empty row."""
    names = [view.owned(partition).ownership.owner for partition in range(view.partitions)]
    topology = Topology({name for name in names if name is not None})
    rows = {name: (place,) for place, name in enumerate(topology.ids)}
    return Assignment(topology=topology, rows=tuple(() if name is None else rows[name] for name in names))
