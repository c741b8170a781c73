"""The environment of Alembic: the database is that of SHARD_URL, or of SHOP_DATABASE."""

import os

from alembic import context
from sqlalchemy import create_engine

from apportion import shards
from models import Base

engine = create_engine(os.environ.get("SHARD_URL") or os.environ["SHOP_DATABASE"])
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, include_object=shards.include_object)
    with context.begin_transaction():
        context.run_migrations()
