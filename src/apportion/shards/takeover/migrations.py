"""Migrations: the tables, columns and constraints of a set that a migration tool must leave alone.

Source: https://alembic.sqlalchemy.org/en/latest/api/runtime.html#alembic.runtime.environment.EnvironmentContext.configure
"""

_PREFIX, _SCHEMAS, _SLOT = "apportion_", frozenset({"apportion", "apportion_periods"}), "slot"


def include_object(subject: object, name: str | None, type_: str, reflected: bool, compare_to: object) -> bool:  # noqa: ARG001 - Alembic's
    """Tell Alembic's autogenerate to leave out the objects that apportion keeps.

    Pass it in `env.py`: `context.configure(..., include_object=shards.include_object)`. It leaves out tables with names
    and indexes that begin with `apportion_`, and the schemas of apportion. It also leaves out foreign keys over the
    slot, and a column `slot` that the database has already.
    """
    if type_ == "table":
        return not ((name or "").startswith(_PREFIX) or getattr(subject, "schema", None) in _SCHEMAS)
    if type_ == "column":
        return name != _SLOT or compare_to is None
    if type_ == "index":
        return not (name or "").startswith(_PREFIX)
    if type_ == "foreign_key_constraint":
        return _SLOT not in getattr(subject, "column_keys", ())
    return True
