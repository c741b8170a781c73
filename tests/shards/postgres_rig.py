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
_DELETE = "DELETE FROM place WHERE id = %s AND slot = %s"
_WRITE = "INSERT INTO place (id, slot, text) VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET text = excluded.text"


class ServerPair(ShardPair):
    """Two databases, made for one case."""

    def __init__(self, rig):
        self._rig, self._mark = rig, uuid4().hex[:8]
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
        host, port = self._rig.address()
        return psycopg.connect(host=host, port=port, user="postgres", password=SECRET, dbname=self.name(shard))

    def place(self, shard):
        address = self._rig.url("x", user="postgres", database=self.name(shard)).partition("?")[0]
        return ServerPlace(set_name="world", shard=shard, address=address)

    async def shard(self, shard_id):
        return self._kept(PostgresShard(self.place(shard_id)))

    async def channel(self, group):
        return self._kept(PostgresChannel(group, self.place(group.source), self.place(group.target)))

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

    async def close(self):
        for handle in self._handles:
            await handle.close()
        for shard in OWNED:
            self._rig.sql(f"DROP DATABASE {self.name(shard)} WITH (FORCE)", database="postgres")

    def _write(self, shard_id, slot, rows, *before):
        with self.connect(shard_id) as connection:
            for statement in before:
                connection.execute(statement)
            for key, text in rows.items():
                connection.execute(*((_DELETE, (key, slot)) if text is None else (_WRITE, (key, slot, text))))


class ServerShardRig:
    """Pairs of databases on one server of the tests."""

    name = "postgresql"
    _server = None

    async def pair(self):
        if ServerShardRig._server is None:
            ServerShardRig._server = PostgresRig(settings=("fsync = off",))
        return ServerPair(ServerShardRig._server)

    @classmethod
    def stop(cls):
        server, cls._server = cls._server, None
        if server is not None:
            server.stop()
