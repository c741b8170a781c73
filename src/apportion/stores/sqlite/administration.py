"""Administration of a store in an SQLite file; it also inspects a file that `connect` would refuse.

Promises: `inspect` writes nothing and makes no file. Refuses: to upgrade the file of an older release unasked.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from stat import S_IWOTH, filemode

from apportion.errors import ApportionError, InvalidInput, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.stores.administration import Administration, Finding, judged
from apportion.stores.damage.rows import damage_found
from apportion.stores.damage.sqlite import names
from apportion.stores.reaper import Counter
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite import statements as sql
from apportion.stores.sqlite.connection import Connection, number_of, open_to_read, value_of
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.leftover import RESTORING
from apportion.stores.sqlite.place import check, file_system, is_in_memory, path_of, refuse_empty, side_files
from apportion.stores.sqlite.schedules import SCHEDULE_TABLES
from apportion.stores.sqlite.schema import NEWEST, damage_of, statements, version_of
from apportion.stores.sqlite.task_statements import KEY_TABLES, TABLES, TASKS_VERSION
from apportion.stores.sqlite.tasks import make_tables, tasks_version
from apportion.stores.url import StoreUrl

_LARGE_BYTES = 10**9
_MADE = "The first connect makes it. Or run: apportion store upgrade URL"
_OF_TASKS = (*TABLES, *SCHEDULE_TABLES, *KEY_TABLES)
_CHECKED_BYTES = 256 * 2**20


class SqliteAdministration(Administration):
    """Administers the store of one URL."""

    def __init__(self, url: StoreUrl) -> None:
        self._name = str(url)
        self._path = path_of(url)

    async def inspect(self) -> tuple[Finding, ...]:
        """See `Administration`. Reads the file without making one."""
        try:
            check(self._path)
            await self._file().refuse_leftover()
            return tuple(self._of_place()) + tuple(self._of_content())
        except ApportionError as error:
            return (Finding(subject="file", found=error.problem, verdict="error", advice=error.hint),)
        except (sqlite3.Error, OSError) as error:
            advice = f"Check the file and the disk: the file may be damaged. {RESTORING}"
            return (Finding(subject="file", found=f"{self._path}: {error}", verdict="error", advice=advice),)

    async def absence(self) -> Finding | None:
        """See `Administration`. None if the file cannot be read: `connect` then raises the error."""
        with suppress(ApportionError, sqlite3.Error, OSError):
            check(self._path)
            await self._file().refuse_leftover()
            if not self._path.exists():
                return self._not_there()
            with closing(open_to_read(self._path)) as connection:
                return _of_schema(0) if version_of(connection, self._path) == 0 else None
        return None

    def upgrade_statements(self) -> tuple[str, ...]:
        """See `Administration`. The statements are for sqlite3(1) and a new file."""
        script = ("PRAGMA journal_mode=WAL", "BEGIN IMMEDIATE", *statements(since=0), *_OF_TASKS, "COMMIT")
        return tuple(f"{statement};" for statement in script)

    async def upgrade(self) -> tuple[int, int]:
        """See `Administration`. Makes the file when there is none."""
        check(self._path)
        with closing(self._file()) as file:
            return await file.upgrade(), NEWEST

    async def upgrade_tasks(self) -> tuple[int, int]:
        """See `Administration`. The file must exist."""
        check(self._path)
        self._require_file("Make it first: apportion store upgrade URL")
        with closing(self._file()) as file:
            await file.open()
            before = await file.read(tasks_version)
            await file.write(make_tables)
        return before, TASKS_VERSION

    def grants(self, user: str) -> tuple[str, ...]:
        """See `Administration`. A file has no GRANT; the result is shell commands."""
        if not user.isprintable() or not user or user.startswith("-") or set(user) & set(" :'\"\\$`;&|"):
            raise InvalidInput("user", user, "the name of a user of this host", "Pass for example: apportion")
        check(self._path)
        self._require_file("Make it first: apportion store upgrade URL")
        directory = _quoted(self._path.parent)
        return (
            f"setfacl -m u:{user}:rwx {directory}",
            f"setfacl -d -m u:{user}:rw {directory}",  # for a -wal and -shm that members make later
            *(f"setfacl -m u:{user}:rw {_quoted(each)}" for each in (self._path, *side_files(self._path))),
        )

    async def renewals(self) -> tuple[Counter, ...]:
        self._require_file("The first member makes it.")
        try:
            with closing(open_to_read(self._path)) as connection:
                return ledger.counters(connection)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    async def restored(self) -> tuple[int, int]:
        """See `Administration`. Open handles notice it at their next request."""
        check(self._path)
        self._require_file("Restore it first.")
        refuse_empty(self._path)
        with closing(self._file()) as file:
            await file.refuse_leftover(is_restored=True)
            before = self._restored_incarnation()
            await file.open()  # if the file is a copy, this begins another incarnation already
            after = await file.read(_incarnation)
            if after == before:
                after = await file.write(self._begin_incarnation)
            return before, after

    def _file(self) -> SqliteFile:
        return SqliteFile(self._path, self._name, SystemClock())

    def _require_file(self, hint: str) -> None:
        if not self._path.exists():
            raise InvalidInput("file of the store", str(self._path), "a file that exists", hint)

    def _restored_incarnation(self) -> int:
        """Return the incarnation of a restored file; `StoreUnavailable` for a damaged file or another schema."""
        with closing(open_to_read(self._path)) as connection:
            try:
                damage = damage_of(connection, "integrity_check")
                if not damage and (version := version_of(connection, self._path)) != NEWEST:
                    damage = f"the file has schema {version} and not {NEWEST}"
            except sqlite3.Error as error:
                raise self._unreadable(error) from error
            if damage:
                raise StoreUnavailable(self._name, damage, RESTORING)
            return _incarnation(connection)

    def _unreadable(self, error: sqlite3.Error) -> StoreUnavailable:
        return StoreUnavailable(self._name, f"the file cannot be read ({error})", RESTORING)

    def _begin_incarnation(self, connection: Connection) -> int:
        connection.execute(sql.NEW_INCARNATION, (self._path.stat().st_ino,))
        return _incarnation(connection)

    def _of_place(self) -> Iterator[Finding]:
        kind = file_system(self._path if self._path.exists() else self._path.parent)
        fault = "A power cut would lose the file: use a disk." if is_in_memory(kind) else ""
        yield judged("file system", kind or "not known", fault if kind else "Check that it is a local disk.")
        if not self._path.exists():
            yield self._not_there()
            return
        for each in (self._path.parent, self._path):
            mode = each.stat().st_mode
            fault = "Every user of this host can write here. Run: chmod o-w" if mode & S_IWOTH else ""
            yield judged("permissions", f"{filemode(mode)} {each}", fault)
        size_bytes = self._path.stat().st_size
        fault = "A store holds small items: find the program that writes large values."
        yield judged("size", f"{size_bytes} bytes", fault if size_bytes > _LARGE_BYTES else "")

    def _not_there(self) -> Finding:
        return Finding(subject="file", found=f"{self._path}: does not exist yet", verdict="absent", advice=_MADE)

    def _of_content(self) -> Iterator[Finding]:
        yield Finding(subject="SQLite", found=sqlite3.sqlite_version)
        if not self._path.exists():
            return
        with closing(open_to_read(self._path)) as connection:
            version = version_of(connection, self._path)
            yield _of_schema(version)
            yield _of_soundness(connection, self._path.stat().st_size)
            if version == NEWEST:
                yield from _of_state(connection)
                yield from _of_tasks(connection)


def _of_schema(version: int) -> Finding:
    if version == 0:
        return Finding(subject="schema", found="an empty file", verdict="absent", advice=_MADE)
    found = f"version {version}, this release writes {NEWEST}"
    if version == NEWEST:
        return Finding(subject="schema", found=found)
    return Finding(subject="schema", found=found, verdict="error", advice="Run: apportion store upgrade URL")


def _of_state(connection: Connection) -> Iterator[Finding]:
    mode = value_of(connection, "PRAGMA journal_mode")
    fault = "" if mode == "wal" else "A program changed it. The next member that connects sets it to wal again."
    yield judged("journal mode", str(mode), fault)
    yield Finding(subject="durability", found="synchronous=FULL for commits and leases, NORMAL for renewals")
    incarnation, revision, compacted = connection.execute(sql.META).fetchall()[0]
    yield Finding(subject="state", found=f"incarnation {incarnation}, revision {revision}, history after {compacted}")


def _of_tasks(connection: Connection) -> Iterator[Finding]:
    """Report the version of the tables of tasks; a file without them has no finding."""
    if version := tasks_version(connection):
        fault = "Upgrade apportion on this host." if version != TASKS_VERSION else ""
        yield judged("tasks", f"version {version}, this release writes {TASKS_VERSION}", fault, verdict="error")
        if not fault:
            yield damage_found(names(connection))


def _of_soundness(connection: Connection, size_bytes: int) -> Finding:
    if size_bytes > _CHECKED_BYTES:
        advice = 'The file is large. To check it, run: sqlite3 work.db "PRAGMA quick_check"'
        return Finding(subject="content", found="not checked for damage", advice=advice)
    damage = damage_of(connection, "quick_check")
    return judged("content", damage or "sound", RESTORING if damage else "", verdict="error")


def _incarnation(connection: Connection) -> int:
    return number_of(connection, sql.INCARNATION)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
