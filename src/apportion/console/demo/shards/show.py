"""Show of shards: the script of the demonstration of shards, and the verdict of a separate process on its traces."""

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from rich.text import Text

from apportion.console.demo.screen import COLOURS, Screen
from apportion.console.demo.shards.plant import plant
from apportion.console.demo.shards.troop import Troop, owned_slots
from apportion.console.demo.shards.verify import LEAST_ACKNOWLEDGED, LONGEST_PAUSE_MS
from apportion.console.demo.shards.world import FIRST, OTHERS, SET, WRITERS, DemoWorld, WorldBase
from apportion.console.demo.verdict import Verdict, verified
from apportion.shards import admin
from apportion.shards.plan import ShardPlan, encode_shard_plan

MEANINGS = {
    "acknowledged": f"writes that were acknowledged (at least {LEAST_ACKNOWLEDGED})",
    "lost": "places without their last acknowledged write",
    "resurrected": "places that are there, though their deletion was acknowledged",
    "stale": "places with a value before their last acknowledged one",
    "owned_twice": "slots without exactly one owner, and places that two owners have",
    "refused": "late writes that the first file refused (2: the session that slept, the stray UPDATE)",
    "unplanned_moves": "slots with another owner than the plan says",
    "left_behind": "tables, triggers and rows that moves have left",
    "pause_ms": f"the longest pause of a group of slots (at most {LONGEST_PAUSE_MS} ms)",
}
_WIDTH = 60
_AROUND_SECONDS = 1.5


def show_shards(screen: Screen, *, stays: bool, selftest: bool) -> Verdict:
    """Split one file into three while processes write to it, and return the verdict on their work."""
    with tempfile.TemporaryDirectory(prefix="apportion-demo-") as folder:
        world = DemoWorld(Path(folder))
        troop = Troop(world, lambda there: screen.show(_picture(there)))
        try:
            _play(troop, screen)
            if stays:
                _linger(troop, screen)
        finally:
            troop.end()
        if selftest:
            plant(world)
        return verified("shards", str(world.folder))


def _play(troop: Troop, screen: Screen) -> None:
    world = troop.world
    screen.say(f"{world.found()} places of the world lie in one file, {world.file(FIRST)}; a country is a tenant")
    troop.write()
    screen.say(f"{WRITERS} processes write to it: one with an event loop, one is a bare script of sqlite3")
    time.sleep(_AROUND_SECONDS)
    plan = _planned(world)
    screen.say(f"two empty files are added; {plan.summary}")
    country, slot = _largest(world, plan)
    troop.sleep(country)
    screen.say(f"a session of {country} has read, and its process is stopped with SIGSTOP")

    took = troop.move(dies_at="chunk.after:20")
    screen.say(f"the mover is killed with SIGKILL after {took:.2f} s, in the middle of a copy")
    took = troop.move()
    screen.say(f"another mover goes on, and ends all moves after {took:.2f} s: {_slots_text(world)}")

    screen.say(f"the session of {country} wakes up, and writes at once; slot {slot} lies elsewhere now")
    troop.wake()
    screen.say(f"a stray UPDATE of {country} goes to the first file, where its old rows still are")
    troop.stray(country)
    took = troop.clean()
    screen.say(f"the old rows are deleted after {took:.2f} s")
    time.sleep(_AROUND_SECONDS)
    troop.check()


def _planned(world: DemoWorld) -> ShardPlan:
    shards = {shard: world.address(shard) for shard in OTHERS}
    asyncio.run(admin.add(world.url, SET, shards, base=WorldBase))
    for shard in OTHERS:
        with closing(sqlite3.connect(world.file(shard))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    plan = asyncio.run(admin.plan(world.url, SET, weights=dict.fromkeys(OTHERS, 1)))
    world.plan.write_bytes(encode_shard_plan(plan))
    return plan


def _largest(world: DemoWorld, plan: ShardPlan) -> tuple[str, int]:
    """Return the largest country that moves, and its slot."""
    moving = {slot for group in plan.groups for slot in group.slots}
    with closing(sqlite3.connect(world.file(FIRST), timeout=30)) as connection:
        query = "SELECT country, slot FROM place GROUP BY country, slot ORDER BY count(*) DESC"
        return next((country, slot) for country, slot in connection.execute(query) if slot in moving)


def _linger(troop: Troop, screen: Screen) -> None:
    screen.say(f"The writers go on until Ctrl-C. Look: apportion shards status {troop.world.url} {SET}")
    try:
        while True:
            time.sleep(0.5)
            screen.show(_picture(troop.world))
            troop.check()
    except KeyboardInterrupt:
        screen.say("they leave")


def _picture(world: DemoWorld) -> Text:
    text, slots = Text(), owned_slots(world)
    for number, (shard, count) in enumerate(slots.items()):
        text.append(f"{shard:6}{count:5} slots ", style=COLOURS[number])
        text.append("█" * round(count * _WIDTH / max(1, sum(slots.values()))) + "\n", style=COLOURS[number])
    return text


def _slots_text(world: DemoWorld) -> str:
    return ", ".join(f"{shard} has {count} slots" for shard, count in owned_slots(world).items())
