"""Secrets of URLs: a marker at each place where a password may stand, and what is shown of it: nothing."""

import asyncio
import logging
import traceback
import zlib

import pytest

from apportion.console.main import main
from apportion.errors import ApportionError
from apportion.stores import administration, connect
from apportion.stores.catalog import parsed_url

MARKER = "MaRk3r"
SIGNS = ["@", ":", "/", "?", "#", "%", "&", "=", " ", "\n", "@:/?#%&= "]
# Nobody listens on port 1; the secret stands where `{}` is.
PLACES = {
    "password": "{}://ann:{}@127.0.0.1:1/db",
    "password, and an option": "{}://ann:{}@127.0.0.1:1/db?namespace=work",
    "password, and no path": "{}://ann:{}@127.0.0.1:1",
    "password without user": "{}://:{}@127.0.0.1:1",
    "password, and no host": "{}://ann:{}@",
    "password, and no port": "{}://ann:{}@127.0.0.1:port/db",
    "password, misspelt option": "{}://ann:{}@127.0.0.1:1/db?nmespace=work",
    "option of a key's password": "{}://ann@127.0.0.1:1/db?sslpassword={}",
    "value of an option": "{}://127.0.0.1:1/db?sslrootcert={}",
    "value of an unknown option": "{}://127.0.0.1:1/db?password={}",
    "password, and a colon is lacking": "{}//ann:{}@127.0.0.1:1/db",
    "option, and a slash is lacking": "{}:/127.0.0.1:1/db?password={}",
}
SCHEMES = ["postgresql", "etcd", "etcds", "redis", "rediss", "sqlite", "memory", "postgres", "mysql"]


def secrets():
    """Return secrets that hold each sign, at each end and between: every piece of one is a part of the marker."""
    return [f"{MARKER}{sign}{MARKER}" for sign in SIGNS] + [f"{sign}{MARKER}{sign}" for sign in SIGNS]


def is_shown(text):
    return MARKER.lower() in text.lower()


def urls(place, scheme):
    return [PLACES[place].format(scheme, secret) for secret in secrets()]


def few(every, seed):
    """Return two of all, others for each seed: the fast tests try each of them somewhere."""
    start = zlib.crc32(seed.encode()) % len(every)
    return (every * 2)[start : start + 2]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_error_of_a_url_and_no_name_of_a_store_holds_a_secret(scheme, place, caplog):
    shown = []
    for url in urls(place, scheme):
        try:
            parsed = parsed_url(url)
            shown.append((url, f"{parsed!r} {parsed}"))
            administration(url)
        except ApportionError as error:
            shown.append((url, "".join(traceback.format_exception(error)).replace(url, "")))
            shown.append((url, f"{error!r} {error} {error.__dict__}"))
    assert [] == [(url, text) for url, text in shown if is_shown(text)]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scheme", ["postgresql", "etcd", "etcds", "redis", "rediss"])
def test_no_connect_says_a_secret_to_its_caller_or_to_the_log(scheme, place, caplog):
    caplog.set_level(logging.DEBUG)
    shown = []

    async def tried(url):
        try:
            await (await connect(url)).close()
        except ApportionError as error:
            return f"{error!r} {error}" + "".join(traceback.format_exception(error))
        return ""

    async def every():
        shown.extend([(url, await tried(url)) for url in urls(place, scheme)])

    asyncio.run(every())
    assert [] == [(url, text) for url, text in shown if is_shown(text)]
    assert not is_shown(caplog.text)


COMMANDS = [
    ["group", "show", "{}", "g"],
    ["group", "explain", "{}", "g", "x"],
    ["group", "show", "{}"],
    ["group", "show", "g", "{}"],
    ["group", "show", "{}", "g", "--nmae=x"],
    ["group", "show", "--url={}", "g"],
    ["group", "shwo", "{}"],
    ["group", "run", "{}", "g", "--partitions", "{}", "--", "true"],
    ["group", "run", "{}", "g", "--partitions", "4", "--zone", "{}"],
    ["group", "plan", "{}", "g", "--weight", "{}"],
    ["store", "upgrade", "{}", "--sql"],
    ["store", "grants", "{}", "--user", "x"],
    ["store", "grants", "{}", "--usr", "x"],
    ["guard", "check", "{}"],
    ["doctor", "--store", "{}"],
    ["doctor", "--stroe", "{}"],
    ["doctor", "{}"],
    ["{}"],
    ["route", "--table", "{}", "k"],
    ["undo", "--table", "{}#tenants"],
    ["plan", "--table", "{}#tenants", "--to", "{}"],
]


def leaks(words, capsys, every):
    """Return the URLs with which a command shows a secret, and what it says."""
    leaked = []
    for url in every:
        main([each.format(url) for each in words])
        said = capsys.readouterr()
        if is_shown(said.out + said.err):
            leaked.append((url, said.out + said.err))
    return leaked


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_echoes_a_secret_whatever_is_wrong_with_the_rest(words, place, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [] == leaks(words, capsys, few(urls(place, "postgresql"), f"{words} {place}"))


@pytest.mark.soak
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_echoes_any_secret_of_any_url(words, scheme, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [] == [leak for place in PLACES for leak in leaks(words, capsys, urls(place, scheme))]
