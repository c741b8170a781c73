"""A folder of Alembic for tests: its settings, its environment, and revisions that a test writes."""

import asyncio

from apportion.shards import admin
from tests.shards.sample import SET

ENVIRONMENT = """
from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from apportion import shards
from tests.shards.sample import Base

engine = create_engine({url}, poolclass=NullPool)
with engine.connect() as connection:
    context.configure(
        connection=connection, target_metadata={metadata}, include_object=shards.include_object, render_as_batch=True
    )
    with context.begin_transaction():
        context.run_migrations()
"""
CONFIG = "context.config.get_main_option('sqlalchemy.url')"
REVISION = """
import os, signal, time
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = {revision!r}, {down!r}, None, None


def upgrade():
    {body}
"""
BATCH = """
    with op.batch_alter_table("place", recreate="always") as batch:
        batch.add_column(sa.Column("mayor", sa.String()))
"""
"""A revision that makes the table anew in SQLite, and so drops its triggers."""


class Scripts:
    """A folder of Alembic. Its first revision is that of the tables that `init` makes."""

    def __init__(self, folder):
        self.folder = folder / "alembic"
        self.config = self.folder / "alembic.ini"
        (self.folder / "versions").mkdir(parents=True)
        self.config.write_text(f"[alembic]\nscript_location = {self.folder}\nsqlalchemy.url = sqlite:///no.db\n")
        self.environment()
        self.revision("0001", None)

    def environment(self, url=CONFIG, metadata="Base.metadata"):
        (self.folder / "env.py").write_text(ENVIRONMENT.format(url=url, metadata=metadata))

    def revision(self, revision, down, body="pass"):
        path = self.folder / "versions" / f"{revision}.py"
        path.write_text(REVISION.format(revision=revision, down=down, body=body))
        return path

    def migrate(self, files, **options):
        return asyncio.run(admin.migrate(files.url, SET, config=self.config, **options))


def stamped(files, revision="0001"):
    """Write a revision into each shard, as `alembic stamp` does."""
    for shard in files.shards:
        files.sql(shard, "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        files.sql(shard, f"INSERT INTO alembic_version VALUES ('{revision}')")
    return files
