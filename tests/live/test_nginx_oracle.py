"""The layout of nginx against a real nginx on loopback: what it answers is the name of the server it passed a key to.

`python -m tests.live.test_nginx_oracle` prints the answers that are stored in `tests/placement/vectors/nginx.json`.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from random import Random

import pytest

from apportion import Node
from apportion.placement.layouts.nginx import Nginx

pytestmark = pytest.mark.live

KEYS_OF_A_CASE = 6_000
LETTERS = "az09 .é\u0301ßñ節点ひ🙂𝄞"
START_SECONDS = 20

# $http_x_key is the key; every server answers with its own name.
CONFIGURATION = """
daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  {upstreams}
  {servers}
  server {{ listen 127.0.0.1:{port}; {locations} }}
}}
"""
UPSTREAM = "upstream {name} {{ hash $http_x_key consistent; {lines} keepalive 64; }}"
SERVER = 'server {{ listen {address}; keepalive_requests 1000000; return 200 "{address}"; }}'
LOCATION = 'location /{name} {{ proxy_pass http://{name}; proxy_http_version 1.1; proxy_set_header Connection ""; }}'


def program():
    """Return the path of nginx; without it skip, and fail where everything must run."""
    path = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no nginx: apt-get install nginx-light")
    return path


def free_port():
    """Return a port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def cases(ports):
    """Return upstream blocks by name: (server, weight) pairs, on the ports given."""
    random, (one, two, three) = Random(50), ports
    return {
        "equal": [(f"127.0.0.{number}:{one}", 1) for number in range(1, 6)],
        "weighted": [(f"127.0.0.1:{two}", 1), (f"127.0.0.2:{two}", 2), (f"127.0.0.3:{two}", 7)],
        "sockets": [("unix:a.sock", 1), ("UNIX:b.sock", 3), (f"127.0.0.9:{two}", 2)],
        "many": [(f"127.0.1.{number}:{three}", random.choice([1, 1, 2, 3])) for number in range(1, 41)],
    }


@contextmanager
def running(folder, blocks, port):
    """Run nginx with these upstream blocks while the body runs."""
    addresses = sorted({address for block in blocks.values() for address, _ in block})
    lines = {
        name: " ".join(f"server {address} weight={weight} max_fails=0;" for address, weight in block)
        for name, block in blocks.items()
    }
    text = CONFIGURATION.format(
        port=port,
        upstreams="\n".join(UPSTREAM.format(name=name, lines=lines[name]) for name in blocks),
        servers="\n".join(SERVER.format(address=address) for address in addresses),
        locations="\n".join(LOCATION.format(name=name) for name in blocks),
    )
    (folder / "nginx.conf").write_text(text)
    command = [program(), "-p", folder, "-c", "nginx.conf", "-e", "error.log"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_answers(process, port, folder)
        yield
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _wait_until_it_answers(process, port, folder):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
    raise AssertionError((folder / "error.log").read_text())


def owners(port, name, asked):
    """Return the server that nginx passes each key to, over one connection."""
    connection, found = HTTPConnection("127.0.0.1", port, timeout=10), []
    for key in asked:
        connection.request("GET", f"/{name}", headers={"X-Key": key})
        answer = connection.getresponse()
        found.append(answer.read().decode())
        assert 200 == answer.status
    connection.close()
    return found


def keys(count=KEYS_OF_A_CASE, seed=51):
    """Return what a header can hold: bytes of every length in 1 .. 64, texts outside ASCII, 64-bit integers."""
    random, allowed = Random(seed), bytes(byte for byte in range(0x21, 0x100) if byte != 0x7F)
    for number in range(count // 3):
        yield bytes(random.choices(allowed, k=number % 64 + 1))
        yield "".join(random.choices(LETTERS, k=random.randint(1, 30))).strip().encode() or b"-"
        yield str(random.getrandbits(64)).encode()


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    """A running nginx: its port, and the upstream blocks it has."""
    program()
    port, blocks = free_port(), cases([free_port() for _ in range(3)])
    with running(tmp_path_factory.mktemp("nginx"), blocks, port):
        yield port, blocks


@pytest.mark.parametrize("name", ["equal", "weighted", "sockets", "many"])
def test_a_server_is_the_one_that_nginx_passes_a_key_to(nginx, name):
    port, blocks = nginx
    ours, asked = Nginx([Node(address, weight=weight) for address, weight in blocks[name]]), list(keys())
    assert owners(port, name, asked) == ours.route_many(asked)
    assert KEYS_OF_A_CASE == len(asked)


def test_nginx_hands_an_empty_key_round(nginx):
    port, blocks = nginx
    assert {address for address, _ in blocks["equal"]} == set(owners(port, "equal", [b""] * 20))


def stored_cases(ports, asked):
    """Yield cases for the file of vectors: servers, and keys with the place of their server."""
    blocks, port = cases(ports), free_port()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), blocks, port):
        for name, block in blocks.items():
            places = {address: place for place, (address, _) in enumerate(block)}
            found = [[key.decode(), places[owner]] for key, owner in zip(asked, owners(port, name, asked), strict=True)]
            yield {"name": name, "servers": block, "owners": found}


if __name__ == "__main__":
    texts = [key for key in keys(900, 52) if key.decode(errors="replace").encode() == key]
    print(json.dumps(list(stored_cases([18101, 18102, 18103], texts[:300])), ensure_ascii=False))
