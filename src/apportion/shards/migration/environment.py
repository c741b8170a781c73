"""Environment of Alembic for one shard: runs the user's `env.py`, and lets it work on the database of this shard alone.

Alembic keeps its environment in globals of its modules, so one process runs one environment at a time.

Promises: a database that is not this shard is refused before Alembic reads or writes it. Triggers and indexes of the
set that a revision dropped are made again, also after a revision that failed. SQLite too undoes a revision that was cut
off, unless `env.py` begins transactions itself.
Refuses: an `env.py` without the sharded tables in its `target_metadata`, because they say which triggers are needed.
Source: https://alembic.sqlalchemy.org/en/latest/api/runtime.html
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, MetaData, Table, event, inspect

from apportion.errors import InvalidInput
from apportion.shards.meta import ShardMeta, compare_meta
from apportion.shards.migration.record import VERSION_TABLE
from apportion.shards.migration.revision import revision_of
from apportion.shards.models import sharded_in
from apportion.shards.place import DatabasePlace
from apportion.shards.sqlite.child_tables import drop_child_triggers

_URL_HINT = "Let env.py take the URL from config.get_main_option('sqlalchemy.url'), or from the environment: SHARD_URL."


class ShardEnvironment:
    """The user's scripts, and one shard that they work on."""

    def __init__(self, config: Path, place: DatabasePlace, meta: ShardMeta) -> None:
        self._config = Config(str(config))
        url = place.url.render_as_string(hide_password=False)
        self._config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        self._scripts = ScriptDirectory.from_config(self._config)
        self._place, self._meta = place, meta
        self.version_table: str = VERSION_TABLE
        self.tables: list[Table] = []

    def target(self, to: str) -> str:
        """Return the id of the revision that `to` means."""
        if to == "head":
            heads = self._scripts.get_heads()
            if len(heads) != 1:
                hint = "Merge them: alembic merge heads. Or name one of them: --to REVISION"
                raise InvalidInput("heads of the revisions", ", ".join(sorted(heads)) or "none", "one", hint)
            return heads[0]
        try:
            found = self._scripts.get_revision(to)
        except CommandError:
            found = None
        if found is None:
            raise InvalidInput("revision", to, "the id of a revision, or head", "See the ids: alembic history")
        return found.revision

    def due(self, target: str) -> tuple[str, tuple[str, ...]]:
        """Return the revision of the shard, and the revisions that are due. Nothing is written."""
        steps: list[str] = []

        def _seen(revision: Any, _: MigrationContext) -> list[RevisionStep]:  # noqa: ANN401 - of Alembic
            steps.extend(each.to_revisions_no_deps[0] for each in self._steps(target, revision))
            return []

        self._run(_seen, dont_mutate=True)
        revision = self.revision()
        if not steps and revision != target:
            hint = "No downgrade is made. Write a revision that undoes the former one."
            raise InvalidInput("revision", target, f"one that follows {revision}", hint)
        return revision, tuple(steps)

    def upgrade(self, target: str) -> None:
        """Run the revisions that are due. `mend` makes the dropped triggers again."""
        self._run(lambda revision, _: self._steps(target, revision), prepare=drop_child_triggers)

    def revision(self) -> str:
        """Return the revision of the shard."""
        with self._place.reader() as engine, engine.connect() as connection:
            return revision_of(connection, self.version_table)

    def mend(self) -> list[str]:
        """Make the triggers and indexes of the sharded tables that are absent, and return their names."""
        with self._place.engine() as engine, engine.begin() as connection:
            inspector = inspect(connection)
            there = {*inspector.get_table_names()}
            tables = [each for each in self.tables if each.name in there]
            made, fence = self._place.absent_triggers(connection, tables), self._place.fence
            if made:
                fence.found(connection, self._meta, tables, ())
            for table in tables:
                known = {each["name"] for each in inspector.get_indexes(table.name)}
                for index in table.indexes:
                    if index.name == f"{table.name}_by_slot" and index.name not in known:
                        index.create(connection)
                        made.append(index.name)
        return made

    def _steps(self, target: str, revision: Any) -> list[Any]:  # noqa: ANN401 - of Alembic
        return list(self._scripts._upgrade_revs(target, revision))

    def _run(
        self,
        work: Any,  # noqa: ANN401 - of Alembic
        prepare: Callable[[Connection], None] = lambda _: None,
        **options: Any,  # noqa: ANN401 - of Alembic
    ) -> None:
        environment = EnvironmentContext(self._config, self._scripts, fn=work, **options)
        configure, seen = environment.configure, list[bool]()

        def _checked(connection: Connection | None = None, **given: Any) -> None:  # noqa: ANN401 - of Alembic
            if connection is not None:
                self._check(connection)
                if _is_transactional(connection):
                    given = {"transactional_ddl": True, **given}
            self._take(given)
            if connection is not None and connection.dialect.name == "sqlite":
                prepare(connection)
            configure(connection=connection, **given)
            seen.append(True)

        environment.configure = _checked  # type: ignore[method-assign, assignment]
        with environment:
            self._scripts.run_env()
        if not seen:
            hint = "Compare it with: alembic init DIRECTORY"
            raise InvalidInput("env.py", "without context.configure", "the environment of Alembic", hint)

    def _check(self, connection: Connection) -> None:
        """Refuse a connection to another database. Alembic gets it without a transaction, as it was."""
        is_begun = connection.in_transaction()
        found = self._place.meta(connection)
        if not is_begun:
            connection.rollback()
        if found is None:
            shown = connection.engine.url.render_as_string()
            raise InvalidInput("database that env.py opens", shown, f"shard {self._meta.shard}", _URL_HINT)
        try:
            compare_meta(found, self._meta)
        except InvalidInput as error:
            error.hint = _URL_HINT
            raise

    def _take(self, given: dict[str, Any]) -> None:
        schema = given.get("version_table_schema")
        name = given.get("version_table") or VERSION_TABLE
        self.version_table = f"{schema}.{name}" if schema else name
        self.tables = [each for part in _metadata(given.get("target_metadata")) for each in sharded_in(part)]
        if not self.tables:
            hint = "Write target_metadata=Base.metadata in context.configure, and import the models there."
            raise InvalidInput("target_metadata in env.py", "without sharded tables", "that of the models", hint)


def _is_transactional(connection: Connection) -> bool:
    """Let each transaction of a connection to SQLite begin with its first statement, so that a kill undoes it whole.

    By default, the driver begins none before a statement that changes tables. A connection that is in a transaction
    stays as it is, and so does one for which `env.py` begins transactions itself.
    """
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite" or connection.in_transaction() or driver.isolation_level is None:
        return False
    driver.isolation_level = None
    event.listen(connection, "begin", lambda begun: begun.exec_driver_sql("BEGIN IMMEDIATE"))
    return True


def _metadata(given: MetaData | Sequence[MetaData] | None) -> Iterator[MetaData]:
    parts: Iterable[MetaData] = () if given is None else (given,) if isinstance(given, MetaData) else given
    yield from parts
