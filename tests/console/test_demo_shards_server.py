"""The servers of the demonstration of shards: what stands in the way is told before anything is made."""

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("psycopg")

from apportion.console.demo.shards import server
from apportion.console.demo.shards.server import running
from apportion.console.demo.shards.world import SERVERS, databases_in
from apportion.errors import InvalidInput
from tests.console.running import refused, run


def test_an_absent_server_is_one_error_that_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(server, "_HOMES", (f"{tmp_path}/*/bin",))
    with pytest.raises(InvalidInput, match="apt install postgresql"), running(tmp_path / SERVERS, ["one"]):
        pass
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_is_too_long_for_sockets_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(server, "_programs", lambda: tmp_path)
    with pytest.raises(InvalidInput, match="temporary folder"), running(tmp_path / ("long" * 20), ["one"]):
        pass
    assert [] == list(tmp_path.iterdir())


def test_the_newest_server_is_taken(monkeypatch, tmp_path):
    for release in ("9.6", "15", "100"):
        (tmp_path / release / "bin").mkdir(parents=True)
        (tmp_path / release / "bin" / "initdb").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(server, "_HOMES", (f"{tmp_path}/*/bin",))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert tmp_path / "100" / "bin" == server._programs()


def test_root_without_a_user_for_the_servers_is_told(monkeypatch, tmp_path):
    (tmp_path / "initdb").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(server.pwd, "getpwall", lambda: [SimpleNamespace(pw_name="root")])
    with pytest.raises(InvalidInput, match="user postgres"):
        server._programs()


def test_servers_have_addresses_without_a_port_of_the_machine(tmp_path):
    (tmp_path / SERVERS).mkdir()
    databases = databases_in(tmp_path)
    assert f"postgresql://demo@/two?host={tmp_path}/servers/two&port=5432" == databases.address("two")


def test_servers_are_of_shards_alone(tmp_path):
    assert "Write: apportion demo shards --postgres" in refused(run("demo", "keys", "--postgres", folder=tmp_path))
