"""Clear text to another host is said once, and fails the doctor; what stays on this machine is not spoken of."""

import asyncio
import json
import logging

import pytest

from apportion.console.main import main
from apportion.errors import ApportionError
from apportion.stores import clear_text, connect
from apportion.stores.catalog import get, parsed_url
from apportion.stores.clear_text import hosts_in_clear


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://ann:x@db.example/work", ("db.example",)),
        ("postgresql://db.example,localhost,10.0.0.7/work?sslmode=prefer", ("db.example", "10.0.0.7")),
        ("postgresql://db.example/work?sslmode=verify-full", ()),
        ("postgresql://db.example/work?sslmode=require", ()),
        ("postgresql:///work?host=/run/postgresql", ()),
        ("postgresql:///work?host=db.example", ("db.example",)),
        ("postgresql://localhost/work", ()),
        ("postgresql://127.0.0.2/work", ()),
        ("postgresql://[::1]/work", ()),
        ("postgresql://[2001:db8::1]/work", ("2001:db8::1",)),
        ("etcd://a:2379,127.0.0.1:2379", ("a",)),
        ("etcds://a:2379", ()),
        ("redis://:x@cache/0", ("cache",)),
        ("rediss://:x@cache/0", ()),
        ("sqlite:///work.db", ()),
        ("memory://a", ()),
    ],
)
def test_hosts_that_are_reached_in_clear_text(url, hosts):
    parsed = parsed_url(url)
    assert hosts == hosts_in_clear(get(parsed.scheme), parsed)


@pytest.mark.parametrize(
    "url",
    ["redis://:s3cr3t@host.invalid/0", "etcd://ann:s3cr3t@host.invalid", "postgresql://ann:s3cr3t@host.invalid/d"],
)
def test_it_is_said_once_per_store_with_what_ends_it_and_without_the_password(url, caplog, monkeypatch):
    monkeypatch.setattr(clear_text, "_said", set())
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        with pytest.raises(ApportionError):
            asyncio.run(connect(url))
    [line] = [each for each in caplog.messages if "clear text" in each]
    assert "requests to host.invalid may go in clear text" in line
    assert get(parsed_url(url).scheme).encryption in line
    assert "s3cr3t" not in line


@pytest.mark.parametrize("url", ["redis://host.invalid/0", "etcd://host.invalid", "postgresql://host.invalid/d"])
def test_it_fails_the_doctor(url, capsys):
    assert 1 == main(["doctor", "--store", url, "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    [finding] = [each for each in findings if each["subject"] == "encryption"]
    assert ("error", "clear text to host.invalid") == (finding["verdict"], finding["found"])
    assert get(parsed_url(url).scheme).encryption in finding["advice"]


def test_the_doctor_says_nothing_of_encryption_where_requests_stay_here(capsys, tmp_path):
    main(["doctor", "--store", f"sqlite:///{tmp_path}/work.db", "--json"])
    assert "encryption" not in capsys.readouterr().out
