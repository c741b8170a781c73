"""Migration of a set: the user's own Alembic brings each shard to one revision, while no move is under way."""
