"""Course of the demonstration of shards: its acts in their order, each told on the screen.

Files: one becomes three. Servers: slots go to a second server, come back by `shards reverse`, and go to it again.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Protocol

from apportion.console.demo.screen import Screen
from apportion.console.demo.shards.ledger import ShardLedger
from apportion.console.demo.shards.troop import PATIENCE_SECONDS, OutOfTime, Troop
from apportion.console.demo.shards.world import FIRST, SET, WRITERS, DemoWorld, WorldBase
from apportion.shards import admin
from apportion.shards.plan import ShardPlan, encode_shard_plan

_AROUND_SECONDS, _AWAY_SECONDS, _LOOK_SECONDS = 1.5, 1.0, 0.05
_UNDER_WAY = frozenset({"copying", "catching-up"})

Course = Callable[[Troop, Screen], None]


class Crashing(Protocol):
    """A server that can crash, and start again."""

    def crash(self) -> None:
        """End it at once."""

    def start(self) -> None:
        """Start it, and wait until it answers."""


def split(troop: Troop, screen: Screen) -> None:
    """Split one file into three."""
    country, slot = _begun(troop, screen)
    _moved(troop, screen, dies_at="chunk.after:20")
    _late(troop, screen, country, slot)
    _cleaned(troop, screen)


def there_and_back(troop: Troop, screen: Screen, servers: Mapping[str, Crashing]) -> None:
    """Give slots to a second server, take them back with all later writes, and give them away again."""
    country, slot = _begun(troop, screen)
    ShardLedger(troop.world.ledger("catalogs")).notes("catalogs", {"names": troop.world.catalogs()})
    _moved(troop, screen, "--channel", "auto", "--reversible", dies_at="chunk.after")
    _late(troop, screen, country, slot)
    time.sleep(_AROUND_SECONDS)
    _reversed(troop, screen)
    _cleaned(troop, screen)

    _planned(troop.world)
    screen.say("the same slots go to the second server again")
    took = troop.move("--channel", "auto", meanwhile=lambda: _crash(troop.world, screen, servers[FIRST]))
    _tell_slots(troop.world, screen, f"the moves have ended after {took:.2f} s")
    _cleaned(troop, screen)


def _begun(troop: Troop, screen: Screen) -> tuple[str, int]:
    """Make the set, let processes write to it, plan its moves. Return a country that moves, and its slot."""
    world = troop.world
    noun, client = world.databases.noun, world.databases.client
    screen.say(f"all files of this run lie in {world.folder}")
    screen.say(f"{world.found()} places of the world lie in one {noun}; a country is a tenant")
    troop.write()
    screen.say(f"{WRITERS} processes write to it: one async, one a bare script of {client}")
    time.sleep(_AROUND_SECONDS)
    asyncio.run(admin.add(world.url, SET, world.others, base=WorldBase))
    plan = _planned(world)
    number = len(world.others)
    screen.say(f"{number} empty {noun}{'s' * (number > 1)} added; {plan.moved} of {plan.total} slots will move")
    country, slot = _largest(world, plan)
    troop.sleep(country)
    screen.say(f"a session of {country} has read, and its process is stopped with SIGSTOP")
    return country, slot


def _planned(world: DemoWorld) -> ShardPlan:
    plan = asyncio.run(admin.plan(world.url, SET, weights=dict.fromkeys(world.others, 1)))
    world.plan.write_bytes(encode_shard_plan(plan))
    return plan


def _largest(world: DemoWorld, plan: ShardPlan) -> tuple[str, int]:
    """Return the largest country that moves, and its slot."""
    moving = {slot for group in plan.groups for slot in group.slots}
    with closing(world.databases.connect(FIRST)) as connection:
        query = "SELECT country, slot FROM place GROUP BY country, slot ORDER BY count(*) DESC"
        return next((country, slot) for country, slot in connection.execute(query) if slot in moving)


def _moved(troop: Troop, screen: Screen, *options: str, dies_at: str) -> None:
    took = troop.move(*options, dies_at=dies_at)
    screen.say(f"the mover is killed with SIGKILL after {took:.2f} s, in the middle of a copy")
    took = troop.move(*options)
    _tell_slots(troop.world, screen, f"another mover goes on, and ends all moves after {took:.2f} s")


def _late(troop: Troop, screen: Screen, country: str, slot: int) -> None:
    screen.say(f"the session of {country} wakes up, and writes; its slot {slot} has moved")
    troop.wake()
    screen.say(f"a stray UPDATE of {country} goes to the first {troop.world.databases.noun}, which has the old rows")
    troop.stray(country)


def _reversed(troop: Troop, screen: Screen) -> None:
    world = troop.world
    moves = [move.id for move in asyncio.run(admin.status(world.url, SET)).moves]
    took = troop.reverse(moves)
    ShardLedger(world.ledger("reversed")).notes("reversed", {})
    _tell_slots(world, screen, f"shards reverse: all slots are back after {took:.2f} s")


def _crash(world: DemoWorld, screen: Screen, server: Crashing) -> None:
    """In the middle of a move, let the source crash; then start the source again."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while not any(move.state in _UNDER_WAY for move in asyncio.run(admin.status(world.url, SET)).moves):
        if time.monotonic() > ends:
            raise OutOfTime("no move has begun")
        time.sleep(_LOOK_SECONDS)
    server.crash()
    screen.say("the first server, the source, crashes in the middle of a move")
    time.sleep(_AWAY_SECONDS)
    server.start()
    screen.say("the first server is there again")


def _tell_slots(world: DemoWorld, screen: Screen, text: str) -> None:
    """Tell an event, and the number of slots of each shard after it."""
    screen.say(text)
    screen.say(f"slots: {', '.join(f'{shard} {count}' for shard, count in world.owned_slots().items())}")


def _cleaned(troop: Troop, screen: Screen) -> None:
    took = troop.clean()
    screen.say(f"the old rows are deleted after {took:.2f} s")
    time.sleep(_AROUND_SECONDS)
    troop.check()
