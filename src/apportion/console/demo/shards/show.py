"""Show of shards: the demonstration on files or on servers, and the verdict of a separate process on its traces."""

import tempfile
import time
from functools import partial
from pathlib import Path

from rich.text import Text

from apportion.console.demo.screen import COLOURS, Screen
from apportion.console.demo.shards.course import Course, split, there_and_back
from apportion.console.demo.shards.plant import plant
from apportion.console.demo.shards.troop import Troop
from apportion.console.demo.shards.verify import LEAST_ACKNOWLEDGED, LONGEST_PAUSE_MS
from apportion.console.demo.shards.world import SERVERS, SET, DemoWorld
from apportion.console.demo.verdict import Verdict, judged

MEANINGS = {
    "acknowledged": f"writes that were acknowledged (at least {LEAST_ACKNOWLEDGED})",
    "lost": "places without their last acknowledged write",
    "resurrected": "places that are there, though their deletion was acknowledged",
    "stale": "places with a value before their last acknowledged one",
    "owned_twice": "slots without exactly one owner, and places that two owners have",
    "refused": "late writes that the first shard refused (the session that slept, the stray UPDATE)",
    "unplanned_moves": "slots with another owner than the plan says",
    "left_behind": "tables, triggers and rows that moves have left",
    "pause_ms": f"the longest pause of a group of slots (at most {LONGEST_PAUSE_MS} ms)",
    "reversed_lost": "places that have lost their last write on the way back",
    "catalogs_clean": "each database has the objects that it had before",
}
_PREFIX, _WIDTH = "apportion-demo-", 60


def show_shards(screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
    """Split one file into three while processes write to it, and return the verdict on their work."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        return _shown(Path(folder), split, screen, stays=stays, selftest=selftest)


def show_servers(screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
    """Move slots between two servers while processes write to them, and return the verdict on their work."""
    from apportion.console.demo.shards.server import running  # noqa: PLC0415 - an extra
    from apportion.console.demo.shards.servers import DemoServers  # noqa: PLC0415 - an extra

    screen.say("two servers of PostgreSQL start, for this run alone")
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX) as folder,
        running(Path(folder) / SERVERS, DemoServers.shards) as servers,
    ):
        course = partial(there_and_back, servers=servers)
        return _shown(Path(folder), course, screen, stays=stays, selftest=selftest)


def _shown(folder: Path, course: Course, screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
    world = DemoWorld(folder)
    troop = Troop(world, lambda there: screen.show(_picture(there)))
    try:
        course(troop, screen)
        if stays:
            _linger(troop, screen)
    finally:
        troop.end()
    return judged("shards", str(world.folder), plant=partial(plant, world) if selftest else None)


def _linger(troop: Troop, screen: Screen) -> None:
    screen.say("the writers go on until Ctrl-C. Look:")
    screen.say(f"apportion shards status {troop.world.url} {SET}")
    try:
        while True:
            time.sleep(0.5)
            screen.show(_picture(troop.world))
            troop.check()
    except KeyboardInterrupt:
        screen.say("they leave")


def _picture(world: DemoWorld) -> Text:
    text, slots = Text(), world.owned_slots()
    for number, (shard, count) in enumerate(slots.items()):
        text.append(f"{shard:6}{count:5} slots ", style=COLOURS[number])
        text.append("█" * round(count * _WIDTH / max(1, sum(slots.values()))) + "\n", style=COLOURS[number])
    return text
