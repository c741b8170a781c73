"""Shards: databases that share the rows of some tables, and sessions that cannot write to the wrong one."""

from importlib.util import find_spec

from apportion.errors import MissingExtra

if find_spec("sqlalchemy") is None:
    raise MissingExtra("SQLAlchemy", "sqlalchemy")

from apportion.shards.identifiers.identifiers import new_id, slot_of
from apportion.shards.models import Reference, Sharded
from apportion.shards.scatter.explanation import explain
from apportion.shards.takeover.migrations import include_object

__all__ = ["Reference", "Sharded", "explain", "include_object", "new_id", "slot_of"]
