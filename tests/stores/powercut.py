"""Power cuts of the SQLite store: every write and sync of its files is recorded, and the disk rebuilt at every point.

The test runs the shipped store, with its statements and pragmas in their order. Only its connection is another one:
`apsw` has a newer SQLite than the standard library, and a file system can be written in Python only there. The standard
library then reads a rebuilt disk.

The assumed disk holds all synced data. Of the data written since, each piece of 512 bytes is there or not, at random,
in any order. A file that was cut to size, made or deleted since may still be as it was.
"""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Committed, CoordinationStore, Put, Unchanged
from apportion.stores.sqlite import ledger
from apportion.stores.sqlite.file import SqliteFile
from apportion.stores.sqlite.shared_file import SharedFile
from apportion.stores.sqlite.store import SqliteStore, in_file

SECTOR = 512
PAGES_PER_CHECKPOINT = 24  # instead of 1,000, so that small workloads meet many checkpoints
Operation = tuple[str, str, int, bytes]  # act, file, offset or size, data


@dataclass
class Recording:
    """All that reached the files in order, with marks where a request was acknowledged."""

    operations: list[Operation] = field(default_factory=list)
    acknowledged: dict[int, ledger.LedgerState] = field(default_factory=dict)
    states: dict[int, dict[bytes, bytes]] = field(default_factory=lambda: {0: {}})
    leases: dict[int, frozenset[int]] = field(default_factory=dict)


class RecordingVfs(apsw.VFS):
    """The real file system, with each write and sync recorded."""

    def __init__(self, name: str, recording: Recording) -> None:
        super().__init__(name, "")
        self._recording = recording

    def xOpen(self, name, flags):
        return RecordingFile("", name, flags, self._recording)

    def xDelete(self, filename, syncdir):
        super().xDelete(filename, syncdir)
        self._recording.operations.append(("delete", Path(filename).name, int(syncdir), b""))


class RecordingFile(apsw.VFSFile):
    """One file, recorded."""

    def __init__(self, vfs, name, flags, recording: Recording) -> None:
        super().__init__(vfs, name, flags)
        filename = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._name = Path(filename).name
        self._operations = recording.operations

    def xWrite(self, data, offset):
        self._operations.append(("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize):
        self._operations.append(("truncate", self._name, newsize, b""))
        super().xTruncate(newsize)

    def xSync(self, flags):
        super().xSync(flags)
        self._operations.append(("sync", self._name, 0, b""))


class ApswConnection:
    """An apsw connection in the shape of the standard library's; `instead` replaces a statement, to plant a defect."""

    def __init__(self, path: Path, vfs: str, instead: dict[str, str]) -> None:
        self._connection = apsw.Connection(str(path), vfs=vfs)
        self._instead = instead
        self._connection.execute(f"PRAGMA wal_autocheckpoint={PAGES_PER_CHECKPOINT}").fetchall()

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def total_changes(self) -> int:
        return self._connection.total_changes()

    def execute(self, statement: str, values: Sequence[object] = (), /):
        try:
            return self._connection.execute(self._instead.get(statement, statement), values)
        except apsw.Error as error:
            translated = sqlite3.OperationalError(str(error))
            translated.sqlite_errorcode = error.extendedresult
            raise translated from error

    def close(self) -> None:
        self._connection.close()


@dataclass
class Bench:
    """A store with recorded files, and the requests to it so far."""

    recording: Recording
    stores: list[SqliteStore]

    @property
    def store(self) -> CoordinationStore:
        return self.stores[0]

    async def put(self, store: CoordinationStore, key: str, value: bytes, lease: int | None = None) -> None:
        found = {item.key: item for item in (await store.scan(key)).items}
        held = found.get(key)
        compare = Absent(key=key) if held is None else Unchanged(key=key, revision=held.revision)
        await self._commit(store, compare, puts=[Put(key=key, value=value, lease=lease)])

    async def delete(self, store: CoordinationStore, key: str) -> None:
        held = next(item for item in (await store.scan(key)).items if item.key == key)
        await self._commit(store, Unchanged(key=key, revision=held.revision), deletes=[key])

    async def _commit(self, store, compare, *, puts=(), deletes=()) -> None:
        revision = max(self.recording.states) + 1
        items = dict(self.recording.states[revision - 1])
        items.update({b"apportion/" + put.key.encode(): put.value for put in puts})
        for key in deletes:
            del items[b"apportion/" + key.encode()]
        self.recording.states[revision] = items
        assert Committed(revision=revision) == await store.commit(when=[compare], puts=puts, deletes=deletes)
        self.acknowledge(revision)

    def acknowledge(self, revision: int) -> None:
        self.recording.acknowledged[len(self.recording.operations)] = revision

    async def grant(self, store: CoordinationStore) -> int:
        lease = (await store.grant(ttl_seconds=1.0)).id
        self._leases(self._alive() | {lease})
        return lease

    async def revoke(self, store: CoordinationStore, lease: int, keys: Sequence[str]) -> None:
        revision = max(self.recording.states) + 1
        gone = {b"apportion/" + key.encode() for key in keys}
        before = self.recording.states[revision - 1]
        self.recording.states[revision] = {key: value for key, value in before.items() if key not in gone}
        # Until it is acknowledged, both are right: of leases only those that live before and after are demanded.
        self._leases(self._alive() - {lease})
        await store.revoke(lease)
        self.acknowledge(revision)

    def _alive(self) -> frozenset[int]:
        return next(reversed(self.recording.leases.values()), frozenset())

    def _leases(self, alive: frozenset[int]) -> None:
        self.recording.leases[len(self.recording.operations)] = alive


async def one_caller(bench: Bench, rng: random.Random) -> None:
    """Commits of one caller, most of them small, with renewals between."""
    lease = await bench.grant(bench.store)
    for number in range(70):
        await bench.put(bench.store, f"own/{rng.randrange(20)}", rng.randbytes(rng.choice((1, 20, 300, 6_000))))
        if number % 3 == 0:
            await bench.store.renew([lease])


async def two_callers(bench: Bench, rng: random.Random) -> None:
    """Commits, deletes and renewals of two handles in turn, so that NORMAL and FULL come between each other."""
    leases = [await bench.grant(store) for store in bench.stores]
    for number in range(60):
        which = rng.randrange(2)
        store = bench.stores[which]
        await bench.stores[1 - which].renew([leases[1 - which]])
        key = f"own/{number % 7}"
        if number % 5 == 4 and any(item.key == key for item in (await store.scan(key)).items):
            await bench.delete(store, key)
        else:
            await bench.put(store, key, rng.randbytes(rng.choice((8, 200, 3_000))))


async def leases_come_and_go(bench: Bench, rng: random.Random) -> None:
    """Leases that are granted, renewed and revoked with their keys."""
    for number in range(36):
        store = bench.stores[number % 2]
        lease = await bench.grant(store)
        keys = [f"member/{number}/{each}" for each in range(rng.randrange(1, 4))]
        for key in keys:
            await bench.put(store, key, rng.randbytes(rng.randrange(1, 900)), lease)
        await store.renew([lease])
        if number % 3:
            await bench.revoke(bench.stores[1 - number % 2], lease, keys)


WORKLOADS: dict[str, Callable[[Bench, random.Random], object]] = {
    "one caller": one_caller,
    "two callers": two_callers,
    "leases come and go": leases_come_and_go,
}


def record(name: str, folder: Path, seed: int, *, instead: dict[str, str] | None = None) -> Recording:
    """Run a workload on the shipped store, from an empty directory to the closing of its handles."""
    recording = Recording()
    vfs = RecordingVfs(f"recording-{id(recording)}", recording)

    def opener(path: Path) -> ApswConnection:
        return ApswConnection(path, f"recording-{id(recording)}", instead or {})

    async def run() -> None:
        clock = SystemClock()
        files = [SqliteFile(folder / "store.db", "sqlite:///store.db", clock, opener=opener) for _ in range(2)]
        bench = Bench(recording, [await in_file(SharedFile(file, clock), "apportion") for file in files])
        bench.acknowledge(0)
        await WORKLOADS[name](bench, random.Random(seed))
        for store in bench.stores:
            await store.close()

    asyncio.run(run())
    vfs.unregister()
    return recording


class Disk:
    """The data that are surely on the disk, and the data written since."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.pending: list[Operation] = []

    def take(self, operation: Operation) -> None:
        """Take one recorded operation; a sync, or a delete that syncs the directory, makes the file's ones sure."""
        what, name, size, _ = operation
        self.pending.append(operation)
        if what == "sync" or (what == "delete" and size):
            for each in self.pending:
                if each[1] == name:
                    _apply(self.files, each)
            self.pending = [each for each in self.pending if each[1] != name]

    def after_a_cut(self, rng: random.Random) -> dict[str, bytes]:
        """Return one of the many states that a power cut may leave."""
        files = dict(self.files)
        share = rng.choice((0.0, 0.5, 0.9, 1.0))
        for operation in self.pending:
            if operation[0] != "write":
                if rng.random() < share:
                    _apply(files, operation)
                continue
            what, name, offset, data = operation
            for start in range(0, len(data), SECTOR):
                if rng.random() < share:
                    _apply(files, (what, name, offset + start, data[start : start + SECTOR]))
        return files


def _apply(files: dict[str, bytes], operation: Operation) -> None:
    what, name, position, data = operation
    before = files.get(name, b"")
    if what == "delete":
        files.pop(name, None)
    elif what == "truncate":
        files[name] = before[:position].ljust(position, b"\0") if name in files else before
    elif what == "write":
        files[name] = before[:position].ljust(position, b"\0") + data + before[position + len(data) :]


def cuts(
    recording: Recording, rng: random.Random, *, each: int, every: int = 1
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Yield disks after a cut before the n-th operation: `each` of them at one point in `every`."""
    disk = Disk()
    for point, operation in enumerate([*recording.operations, ("sync", "", 0, b"")]):
        if point % every == 0:
            for _ in range(each):
                yield point, disk.after_a_cut(rng)
        disk.take(operation)


def verdict(recording: Recording, point: int, files: dict[str, bytes], folder: Path) -> str:
    """Describe the fault of a disk after a cut, empty when there is none."""
    for path in folder.iterdir():
        path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    revision = max((revision for at, revision in recording.acknowledged.items() if at <= point), default=None)
    if revision is None:
        return ""  # nothing was acknowledged yet, not even the connection
    connection = sqlite3.connect(folder / "store.db", isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=OFF")  # data read here need not survive
        return _difference(connection, recording, point, revision)
    except sqlite3.DatabaseError as error:
        return f"not readable: {error}"
    finally:
        connection.close()


def _difference(connection: sqlite3.Connection, recording: Recording, point: int, revision: int) -> str:
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        return "corrupt"
    found = ledger.state(connection)
    if found.revision < revision:
        return f"lost: at revision {found.revision}, {revision} was acknowledged"
    items = {key: value for key, value, _, _ in ledger.within(connection, b"", b"\xff")}
    if items != recording.states[found.revision]:
        return f"torn: not what revision {found.revision} wrote"
    demanded = [alive for at, alive in recording.leases.items() if at <= point]
    later = [alive for at, alive in recording.leases.items() if at > point]
    alive = {counter.lease for counter in ledger.counters(connection)}
    wanted = demanded[-1] & later[0] if demanded and later else demanded[-1] if demanded else frozenset()
    return "" if wanted <= alive else f"lost: leases {sorted(wanted - alive)}"


def survey(
    seed: int, folder: Path, *, each: int, every: int = 1, instead: dict[str, str] | None = None
) -> dict[str, list[str]]:
    """Cut the power of every workload; return the fault at each cut, empty for a good one, by workload."""
    found: dict[str, list[str]] = {}
    rng = random.Random(seed)
    for name in WORKLOADS:
        work, disk = folder / name / "work", folder / name / "disk"
        work.mkdir(parents=True)
        disk.mkdir()
        recording = record(name, work, seed, instead=instead)
        found[name] = [verdict(recording, *cut, disk) for cut in cuts(recording, rng, each=each, every=every)]
    return found
