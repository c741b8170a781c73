"""Migrations of 20 shards, on SQLite: the seventh shard fails, or the process is killed, and a second run finishes.

The signal 9 comes at a state of a shard that is drawn anew, once in each of three sets.
"""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion import shards
from apportion.shards import admin
from apportion.shards.admin import SetMigration
from bench.goal import Goal, at_least
from bench.row import Row

SHARDS, SEVENTH, KILLS, SEED = 20, "s07", 3, 24
DONE, UNTOUCHED, ALL, WHOLE = (
    at_least(6, "shards"),
    at_least(13, "shards"),
    at_least(SHARDS, "shards"),
    at_least(KILLS, "sets"),
)
_ENVIRONMENT = """
import os
from alembic import context
from sqlalchemy import create_engine
from apportion import shards
from bench.figures.shards_migrate import Base

engine = create_engine(os.environ["SHARD_URL"])
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, include_object=shards.include_object)
    with context.begin_transaction():
        context.run_migrations()
"""
_REVISION = """
import os
import sqlalchemy as sa
from alembic import op

revision, down_revision = {revision!r}, {down!r}

def upgrade():
    {body}
"""
_FAILS = f'assert os.environ["SHARD_ID"] != "{SEVENTH}"\n    '
_ADDS = 'op.add_column("place", sa.Column("mayor", sa.String()))'


class Base(DeclarativeBase):
    """The models of the figure."""


class Place(shards.Sharded, Base):
    """A row of the application."""

    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]


class _Set:
    """A set in a folder, with the revisions of Alembic."""

    def __init__(self, folder: Path, *, fails: bool) -> None:
        self.folder, self.url, self.config = folder, f"sqlite:///{folder}/control.db", folder / "alembic.ini"
        self.ids = [f"s{number:02}" for number in range(1, SHARDS + 1)]
        urls = {shard: f"sqlite:///{folder}/{shard}.db" for shard in self.ids}
        (folder / "versions").mkdir(parents=True)
        asyncio.run(admin.init(self.url, "world", urls, base=Base, slots=64))
        self.config.write_text(f"[alembic]\nscript_location = {folder}\n")
        (folder / "env.py").write_text(_ENVIRONMENT)
        self.revise("0001", None, "pass")
        for shard in self.ids:
            self._stamp(shard)
        self.revise("0002", "0001", _FAILS + _ADDS if fails else _ADDS)

    def revise(self, revision: str, down: str | None, body: str) -> None:
        """Write a revision."""
        text = _REVISION.format(revision=revision, down=down, body=body)
        (self.folder / "versions" / f"{revision}.py").write_text(text)

    def migrate(self) -> SetMigration:
        """Migrate one shard after another."""
        return asyncio.run(admin.migrate(self.url, "world", config=self.config, parallel=1))

    def revisions(self) -> dict[str, str]:
        """Return the revision of each database."""
        return {shard: self._revision(shard) for shard in self.ids}

    def _stamp(self, shard: str) -> None:
        """Note the first revision in a database, as `alembic stamp` does."""
        with closing(sqlite3.connect(self.folder / f"{shard}.db", isolation_level=None)) as connection:
            connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
            connection.execute("INSERT INTO alembic_version VALUES ('0001')")

    def _revision(self, shard: str) -> str:
        with closing(sqlite3.connect(self.folder / f"{shard}.db")) as connection:
            return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def rows() -> list[Row]:
    """Migrate the sets."""
    with TemporaryDirectory() as folder:
        return [*_failed(Path(folder) / "failed"), _killed(Path(folder))]


def _failed(folder: Path) -> list[Row]:
    """Let the seventh shard fail, then mend the revision and migrate again."""
    made = _Set(folder, fails=True)
    found = made.migrate()
    states, revisions = Counter(each.state for each in found.shards), made.revisions()
    done = sum(each.state == "done" and revisions[each.id] == "0002" for each in found.shards)
    untouched = sum(each.state == "pending" and revisions[each.id] == "0001" for each in found.shards)
    named = len(found.shards) if states["failed"] == 1 and found.shards[6].error else 0
    made.revise("0002", "0001", _ADDS)
    began = monotonic()
    again = made.migrate()
    at_head = [*made.revisions().values()].count("0002") if again.is_whole else 0
    name = f"migration of {SHARDS} shards, the seventh fails"
    return [
        _row(f"{name}: done", done, DONE),
        _row(f"{name}: untouched", untouched, UNTOUCHED),
        _row(f"{name}: named", named, ALL),
        _row(f"{name}: at the revision after a second run, in {monotonic() - began:.0f} s", at_head, ALL),
    ]


def _killed(folder: Path) -> Row:
    """Kill a migration at a state of a shard, in each of some sets. Return the number of sets that come to the end."""
    rng, whole = Random(SEED), 0
    for number in range(KILLS):
        made = _Set(folder / f"killed-{number}", fails=False)
        event = rng.randrange(1, 2 * SHARDS)
        words = [sys.executable, "-m", "bench.figures.shards_migrate", made.url, str(made.config), str(event)]
        code = subprocess.run(words, check=False, timeout=300).returncode
        is_whole = made.migrate().is_whole and {*made.revisions().values()} == {"0002"}
        whole += code == -signal.SIGKILL and is_whole
    return _row(
        f"migration of {SHARDS} shards, signal 9 at a state by chance: sets that the same call finishes", whole, WHOLE
    )


def _row(name: str, count: int, goal: Goal) -> Row:
    return Row(name=name, value=count, shown=f"{count} {goal.unit}", goal=str(goal), met=goal.is_met(count))


def _die(url: str, config: str, event: int) -> None:
    """Migrate, and end this process with the signal 9 at an event."""
    left = [event]

    def _seen(_: object) -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(admin.migrate(url, "world", config=config, parallel=1, observer=_seen))


if __name__ == "__main__":
    _die(sys.argv[1], sys.argv[2], int(sys.argv[3]))
