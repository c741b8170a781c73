"""What the Redis store refuses before it connects, and the words that it sends."""

import asyncio
import subprocess
import sys

import pytest

from apportion import stores
from apportion.errors import InvalidInput, StoreUnavailable
from apportion.stores.redis.link import parsed_info, refusals
from apportion.stores.redis.store import _unpacked, _words
from apportion.stores.requests import CommitRequest


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://", "exactly one host"),
        ("redis:///0", "exactly one host"),
        ("redis://one,two/0", "exactly one host"),
        ("redis://one/crawl", "a number"),
        ("redis://one/-1", "a number"),
        ("redis://one/٣", "a number"),
        ("redis://one/0/1", "a number"),
        ("redis://one?ca=file", "rediss:// with ca"),
        ("rediss://one?ca=absent.pem", "a readable file"),
        ("redis://:\udc80@one", "without lone surrogates"),
        ("redis://one?verify=no", "one of ca, namespace"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=said):
        asyncio.run(stores.connect(url))


def test_a_user_whose_name_would_be_read_as_more_gets_no_grants():
    store = stores.administration("redis://127.0.0.1/0")
    assert store.grants("worker")[0].startswith("ACL SETUSER worker on ")
    for user in ("", "worker +@all", "wor'ker", "wor\nker"):
        with pytest.raises(InvalidInput, match="without blanks"):
            store.grants(user)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"redis_version": "6.0.16"}, InvalidInput),
        ({"redis_version": "6.2.0", "cluster_enabled": "1"}, InvalidInput),
        ({"redis_version": "7.2.4", "maxmemory_policy": "allkeys-lfu"}, InvalidInput),
        ({"redis_version": "8.0.0", "run_id": ""}, InvalidInput),
        ({"redis_version": "8.0.0", "master_host": "elsewhere"}, StoreUnavailable),
    ],
)
def test_a_server_is_refused_by_what_it_says_of_itself(facts, kind):
    (error,) = refusals("redis://one/0", {"run_id": "1", **facts})
    assert isinstance(error, kind)


def test_a_server_that_evicts_only_what_expires_is_none_to_refuse():
    info = b"# Server\r\nredis_version:6.2.0\r\nrun_id:1\r\nmaxmemory_policy:volatile-lru\r\n"
    assert [] == refusals("redis://one/0", parsed_info(info))


def test_a_commit_is_sent_sorted_by_key_with_what_it_compares():
    compares = ((b"n/a", None), (b"n/b", 7))
    request = CommitRequest(compares, ((b"n/b", b"value", 3),), (b"n/a",))
    expected = [2, b"n/a", b"", b"n/b", b"7", b"n/a", b"delete", b"", b"", b"n/b", b"put", b"3", b"value"]
    assert expected == _words(request)


def test_a_change_reads_back_as_it_was_written():
    change = b"\0\0\0\1\0\0\0\0a" + b"\0\0\0\2\0\0\0\5bc12 \0 "
    assert [(b"a", b""), (b"bc", b"12 \0 ")] == _unpacked(change)


def test_without_the_client_the_extra_is_named():
    script = (
        "import sys, asyncio; sys.modules['redis'] = None\n"
        "from apportion import stores, errors\n"
        "try: asyncio.run(stores.connect('redis://one'))\n"
        "except errors.MissingExtra as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Install it with: pip install 'apportion[redis]'\n" == done.stdout.partition("\n")[2]
