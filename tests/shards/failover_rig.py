"""A cluster whose standby takes its place under the same address, as behind a name that follows the primary.

One cluster serves many fail-overs: the promoted standby is the primary of the next one. It keeps the files of all.
"""

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from time import monotonic, sleep
from uuid import uuid4

from tests.shards.server import Servers
from tests.stores.rigs.postgres import AS_POSTGRES, SECRET, PostgresRig, free_port, programs

PATIENCE_SECONDS = 20.0
_FOLLOWED = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"


class Cluster:
    """A primary, and a standby while `follow` is called."""

    def __init__(self):
        self.rig = PostgresRig(settings=("fsync = off", "wal_keep_size = 64"))
        self._first = self.rig.data
        self._folder, self._process = None, None

    def follow(self):
        """Make a standby that has all that the primary wrote."""
        rig, self._folder = self.rig, self.rig.folder / f"standby{uuid4().hex[:8]}"
        source = ["-h", "127.0.0.1", "-p", str(rig.port), "-U", "postgres"]
        copying = [programs() / "pg_basebackup", *source, "-D", self._folder, "-R", "-X", "stream", "-c", "fast", "-N"]
        subprocess.run(copying, check=True, env=os.environ | {"PGPASSWORD": SECRET}, cwd=rig.folder, **AS_POSTGRES)
        with (rig.folder / "standby.log").open("ab") as log:
            command = [programs() / "postgres", "-D", self._folder, "-p", str(free_port())]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **AS_POSTGRES)
        self.replayed()

    def replayed(self):
        """Wait until the standby has replayed all that the primary wrote."""
        self._until(_FOLLOWED, 1)

    def cut_off(self):
        """Let the standby hear no more of the primary."""
        with (self._folder / "postgresql.auto.conf").open("a") as settings:
            settings.write("primary_conninfo = ''\n")
        self._control("reload")
        self._until("SELECT count(*) FROM pg_stat_replication", 0)

    def fail_over(self):
        """Kill the primary, and promote the standby at its address."""
        asyncio.run(self.rig.kill())
        self._stop()
        self.rig.data = self._folder
        self.rig.launch()
        self._control("promote")

    def stop(self):
        """Stop both servers."""
        self._stop()
        self.rig.data = self._first  # the rig may have mounted it
        self.rig.stop()

    def _stop(self):
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def _until(self, statement, count):
        ends = monotonic() + PATIENCE_SECONDS
        while self.rig.sql(statement) != [(count,)]:
            assert monotonic() < ends, statement
            sleep(0.02)

    def _control(self, order):
        subprocess.run([programs() / "pg_ctl", order, "-D", self._folder, "-s"], check=True, **AS_POSTGRES)


class FailoverServers(Servers):
    """Shard `one` on a cluster with a standby, all others on a server beside it."""

    def __init__(self, cluster, rig, folder):
        self.cluster = cluster
        super().__init__(rig, folder)

    def rig_of(self, shard):
        return self.cluster.rig if shard == "one" else self.rig
