"""The rig of the suites of shards for two databases of one PostgreSQL server."""

from uuid import uuid4

import psycopg

from apportion.shards.postgres.channel import PostgresChannel
from apportion.shards.postgres.schema import STATEMENTS, triggers
from apportion.shards.postgres.server import ServerPlace
from apportion.shards.postgres.shard import PostgresShard
from apportion.sim.conformance.shards.rig import OWNED, ShardPair
from tests.stores.rigs.postgres import SECRET, PostgresRig

_TABLE = (
    "CREATE TABLE place (slot smallint NOT NULL, id bigint PRIMARY KEY, text text)",
    "CREATE UNIQUE INDEX place_by_slot ON place (slot, id)",
)
LOGICAL = (
    "wal_level = logical",
    "max_logical_replication_workers = 12",
    "max_worker_processes = 24",
    "wal_retrieve_retry_interval = 20ms",
    "max_slot_wal_keep_size = 4GB",
)
"""The settings of a server for native channels. Its workers start at once, and not up to five seconds later."""

_IDLE = "AND active_pid IS NULL"
_DELETE = "DELETE FROM place WHERE id = %s AND slot = %s"
_WRITE = "INSERT INTO place (id, slot, text) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET text = excluded.text"


class ServerPair(ShardPair):
    """Two databases, made for one case. `channel` is the class of their channels."""

    def __init__(self, rig, channel):
        self.rig, self._channel, self._mark = rig, channel, uuid4().hex[:8]
        self._handles = []
        for shard, slots in OWNED.items():
            rig.sql(f"CREATE DATABASE {self.name(shard)}", database="postgres")
            with self.connect(shard) as connection:
                for statement in (*_TABLE, *STATEMENTS, *triggers("place")):
                    connection.execute(statement)
                meta = "INSERT INTO apportion.shard_meta VALUES (1, 1, 'world', %s, 64, 'xxh3-64')"
                connection.execute(meta, (shard,))
                owned = "INSERT INTO apportion.slot (slot, state) SELECT unnest(%s::smallint[]), 'owner'"
                connection.execute(owned, (list(slots),))

    def name(self, shard):
        return f"{shard}_{self._mark}"

    def connect(self, shard):
        host, port = self.rig.address()
        return psycopg.connect(host=host, port=port, user="postgres", password=SECRET, dbname=self.name(shard))

    def place(self, shard):
        address = self.rig.url("x", user="postgres", database=self.name(shard)).partition("?")[0]
        return ServerPlace(set_name="world", shard=shard, address=address)

    async def shard(self, shard_id):
        return self._kept(PostgresShard(self.place(shard_id)))

    async def channel(self, group):
        return self._kept(self._channel(group, self.place(group.source), self.place(group.target)))

    def _kept(self, handle):
        self._handles.append(handle)
        return handle

    async def write(self, shard_id, slot, rows):
        try:
            self._write(shard_id, slot, rows)
        except psycopg.Error as error:
            if error.sqlstate not in ("AP001", "AP002"):
                raise
            return False
        return True

    async def plant(self, shard_id, slot, rows):
        self._write(shard_id, slot, rows, "SET LOCAL session_replication_role = replica")

    async def read(self, shard_id, slot):
        with self.connect(shard_id) as connection:
            return dict(connection.execute("SELECT id, text FROM place WHERE slot = %s", (slot,)).fetchall())

    def sql(self, shard, statement):
        """Run a statement as an administrator."""
        return self.rig.sql(statement, database=self.name(shard))

    def catalog_names(self):
        """Return the names of all publications, subscriptions, replication slots and origins."""
        found = "SELECT pubname FROM pg_publication UNION ALL SELECT subname FROM pg_subscription UNION ALL "
        found += "SELECT slot_name FROM pg_replication_slots UNION ALL SELECT roname FROM pg_replication_origin"
        return [name for shard in OWNED for (name,) in self.sql(shard, found)]

    async def close(self):
        for handle in self._handles:
            await handle.close()
        for shard in OWNED:
            drop_subscriptions(self.rig, self.name(shard))
        for shard in OWNED:
            drop_slots(self.rig, self.name(shard))
            self.rig.sql(f"DROP DATABASE {self.name(shard)} WITH (FORCE)", database="postgres")

    def _write(self, shard_id, slot, rows, *before):
        with self.connect(shard_id) as connection:
            for statement in before:
                connection.execute(statement)
            for key, text in rows.items():
                connection.execute(*((_DELETE, (key, slot)) if text is None else (_WRITE, (key, slot, text))))


def drop_subscriptions(rig, database):
    """Drop the subscriptions that a case has left in a database."""
    here = "subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
    for (name,) in rig.sql(f"SELECT quote_ident(subname) FROM pg_subscription WHERE {here}", database=database):
        for act in ("DISABLE", "SET (slot_name = NONE)"):
            rig.sql(f"ALTER SUBSCRIPTION {name} {act}", database=database)
        rig.sql(f"DROP SUBSCRIPTION {name}", database=database)


def drop_slots(rig, database):
    """Drop the replication slots of a database, with the processes that use them."""
    rig.sql(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '{database}'")
    while slots := rig.sql(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{database}' {_IDLE}"):
        rig.sql(f"SELECT pg_drop_replication_slot('{slots[0][0]}')", database=database)


class ServerShardRig:
    """Pairs of databases on one server of the tests."""

    name = "postgresql"
    _server = None

    def __init__(self, channel=PostgresChannel):
        self._channel = channel

    async def pair(self):
        if ServerShardRig._server is None:
            ServerShardRig._server = PostgresRig(settings=("fsync = off", *LOGICAL))
        return ServerPair(ServerShardRig._server, self._channel)

    @classmethod
    def stop(cls):
        server, cls._server = cls._server, None
        if server is not None:
            server.stop()
