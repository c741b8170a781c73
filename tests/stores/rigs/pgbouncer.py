"""PgBouncer before a PostgreSQL rig: a transaction pooler that can be paused and pointed at another server."""

import os
import shutil
import subprocess
import time

import psycopg

from tests.stores.rigs.postgres import AS_POSTGRES, DATABASE, SECRET, USER, free_port

_ADMIN = "pooler"
_PATIENCE_SECONDS = 30.0


class Pooler:
    """One pooler, with so many connections to the server at the most."""

    def __init__(self, rig, *, connections=3, database=DATABASE):
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            raise FileNotFoundError("pgbouncer: install PgBouncer")
        self.port = free_port()
        self._folder, self._connections = rig.folder / f"pooler{self.port}", connections
        self._database = database
        self._folder.mkdir()
        if AS_POSTGRES:
            shutil.chown(self._folder, "postgres", "postgres")
        quoted = SECRET.replace('"', '""')
        (self._folder / "users").write_text(f'"{USER}" "{quoted}"\n"postgres" "{quoted}"\n"{_ADMIN}" ""\n')
        self._configure(rig.port)
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program, "pgbouncer.ini"], cwd=self._folder, stdout=log, stderr=log, **AS_POSTGRES
            )
        self._await_answer()

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def tell(self, command):
        """Give an order of the console; return its rows."""
        target = {"host": "127.0.0.1", "port": self.port, "user": _ADMIN, "dbname": "pgbouncer"}
        with psycopg.connect(**target, autocommit=True) as console:
            cursor = psycopg.ClientCursor(console)
            cursor.execute(command)
            return cursor.fetchall() if cursor.description else []

    def point_at(self, port):
        """Send everybody to another server from now on; only while paused."""
        self._configure(port)
        self.tell("RELOAD")

    def stop(self):
        self._process.terminate()
        self._process.wait()

    def _configure(self, port):
        (self._folder / "pgbouncer.ini").write_text(
            f"[databases]\n{self._database} = host=127.0.0.1 port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nauth_type = trust\nauth_file = users\npool_mode = transaction\n"
            f"unix_socket_dir =\ndefault_pool_size = {self._connections}\nmax_client_conn = 3000\n"
            f"admin_users = {_ADMIN}\n"
        )

    def _await_answer(self):
        ends = time.monotonic() + _PATIENCE_SECONDS
        target = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": SECRET, "dbname": self._database}
        while True:
            try:
                psycopg.connect(**target, connect_timeout=5).close()
            except psycopg.OperationalError:
                assert time.monotonic() < ends, (self._folder / "log").read_text()
                time.sleep(0.05)
            else:
                return
