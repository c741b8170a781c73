"""The environment of Alembic: the database is that of its settings, or of SHOP_DATABASE."""

import os

from alembic import context
from sqlalchemy import create_engine

from models import Base

engine = create_engine(context.config.get_main_option("sqlalchemy.url") or os.environ["SHOP_DATABASE"])
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata)
    with context.begin_transaction():
        context.run_migrations()
