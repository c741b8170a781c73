"""Writer processes: the processes that write to two shards while movers are killed, on files or on servers."""

import os
import subprocess
import sys
from contextlib import contextmanager

from tests.shards.postgres_rig import LOGICAL
from tests.shards.server import OWNER, Servers, as_role
from tests.stores.rigs.postgres import USER, PostgresRig

PROCESSES = 2


@contextmanager
def writing(module, files, writers, env):
    """Let processes of a module write within the block; at its end each of them has ended well."""
    share = writers // PROCESSES
    command = [sys.executable, "-m", module, files.url, str(files.folder)]
    processes = [
        subprocess.Popen(
            [*command, str(first), str(share)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for first in range(0, writers, share)
    ]
    try:
        for each in processes:
            assert "ready" == each.stdout.readline().strip()
        yield
    finally:
        for each in processes:
            each.stdin.close()
        ended = [each.wait(60) for each in processes]
    assert [0] * PROCESSES == ended


@contextmanager
def servers(folder, monkeypatch):
    """Yield two shards on a server, and the environments of the role that writes and of the role that moves."""
    rig = PostgresRig(settings=("fsync = off", *LOGICAL))
    try:
        as_role(monkeypatch, OWNER)
        files = Servers(rig, folder)
        secret = os.environ["SERVER_SECRET"]
        yield files, *(os.environ | {"SERVER_ROLE": role, "SERVER_SECRET": secret} for role in (USER, OWNER))
    finally:
        rig.stop()
