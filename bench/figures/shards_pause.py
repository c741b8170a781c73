"""The pause of writers while a group of slots switches between two SQLite files.

Eight processes write to all slots of the group, while a mover brings the group from file to file, again and again. The
pause of a switch is the time from the last success of any process on the old file to the first one after it. Beside it
stands the gap between two successes of one process, which has the waits of other writers in it.
"""

import asyncio
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from apportion.shards import admin
from apportion.shards.sqlite.sites import SqliteSites
from bench import switches
from bench.goal import at_most
from bench.row import Row

PAUSE = at_most(150, "ms")


def rows() -> list[Row]:
    """Measure all switches of one group under eight writers."""
    with TemporaryDirectory() as folder:
        control = f"sqlite:///{folder}/control.db"
        paths = {shard: Path(folder) / f"{shard}.db" for shard in ("one", "two")}
        urls = {shard: f"sqlite:///{path}" for shard, path in paths.items()}
        asyncio.run(admin.init(control, "world", urls, base=switches.Base))
        for url in urls.values():
            switches.use_wal(url)
        found = switches.measured(control, partial(SqliteSites, "world", paths))
    pauses, gaps = found.pauses(), found.gaps()
    late, gap = (quantiles(each, n=100)[-1] * 1e3 for each in (pauses, gaps))
    shown = f"{late:.0f} ms ({len(pauses)} switches, median {median(pauses) * 1e3:.0f})"
    name = f"write pause of a group under {switches.WRITERS} processes, p99"
    return [
        Row(name=name, value=late, shown=shown, goal=str(PAUSE), met=PAUSE.is_met(late)),
        Row(name="gap between two writes of one process, p99", value=gap, shown=f"{gap:.0f} ms ({len(gaps)} writes)"),
    ]
