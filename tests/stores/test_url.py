"""Store URLs: every part is found again, whatever the password holds, and the password is shown nowhere."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import ApportionError, InvalidInput, UnknownOption
from apportion.stores import administration, connect
from apportion.stores.url import DEFAULT_NAMESPACE, StoreUrl, parse

SCHEMES = ("memory", "sqlite", "postgresql", "etcd", "etcds", "redis")
CANARY = "c4n4ry"


def parsed(url):
    return parse(url, schemes=SCHEMES)


def refused(url):
    with pytest.raises(InvalidInput) as caught:
        parsed(url)
    assert CANARY not in str(caught.value) + repr(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("memory://", StoreUrl(scheme="memory")),
        ("memory://one", StoreUrl(scheme="memory", hosts=(("one", None),))),
        ("sqlite:///work.db", StoreUrl(scheme="sqlite", path="work.db")),
        ("sqlite:////var/lib/work.db", StoreUrl(scheme="sqlite", path="/var/lib/work.db")),
        ("sqlite:////a b/c@d:e,f.db", StoreUrl(scheme="sqlite", path="/a b/c@d:e,f.db")),
        ("sqlite:///a%3Fb%20c.db", StoreUrl(scheme="sqlite", path="a?b c.db")),
        (
            "postgresql://u:p@h:5432/d",
            StoreUrl(scheme="postgresql", user="u", password="p", hosts=(("h", 5432),), path="d"),
        ),
        ("etcd://a:1,b:2,[::1]:3", StoreUrl(scheme="etcd", hosts=(("a", 1), ("b", 2), ("::1", 3)))),
        ("redis://:p@h/0", StoreUrl(scheme="redis", password="p", hosts=(("h", None),), path="0")),
    ],
)
def test_the_parts_of_a_url_are_found(url, expected):
    assert expected == parsed(url)


def test_the_query_gives_namespace_and_options():
    url = parsed("sqlite:///work.db?namespace=crawl&x=1")
    assert ("crawl", "1", "") == (url.namespace, url.option("x"), url.option("y"))
    assert DEFAULT_NAMESPACE == parsed("sqlite:///work.db").namespace
    with pytest.raises(UnknownOption):
        url.expect(options=("y",), parts=("path",))


@given(password=st.text("@:/% ab5#&=,[]é\U0001f511", max_size=12))
def test_a_password_may_be_written_as_it_is(password):
    import re

    bare = re.fullmatch(r"(?:[^%]|%(?![0-9A-Fa-f]{2}))*", password)
    url = parsed(f"postgresql://ana:{password}@h:5432/d")
    assert (("h", 5432),) == url.hosts
    assert "d" == url.path
    if bare:
        assert password == url.password


@given(password=st.text(max_size=12))
def test_a_password_may_be_percent_encoded(password):
    from urllib.parse import quote

    encoded = quote(password.encode("utf-8", "ignore"), safe="")
    url = parsed(f"postgresql://ana:{encoded}@h/d")
    assert password.encode("utf-8", "ignore").decode() == url.password


@pytest.mark.parametrize(
    "password",
    [CANARY, f"{CANARY}@x", f"x:{CANARY}", f"/{CANARY}/", f"%{CANARY}%", f"a {CANARY} b", f"@:/% {CANARY} @:/%"],
)
def test_a_password_is_shown_nowhere(password):
    for scheme in SCHEMES:
        url = f"{scheme}://ana:{password}@localhost:1/d"
        found = parsed(url)
        assert CANARY in found.password
        assert CANARY not in str(found) + repr(found)
    for broken in (
        f"postgres://ana:{password}@h/d",
        f"postgresql:/ana:{password}@h/d",
        f"postgresql:ana:{password}://@h/d",
        f"postgresql://ana:{password}@h:99999/d",
        f"postgresql://ana:{password}@h:port/d",
        f"postgresql://ana:{password}@h/d?namespace=a b",
        f"postgresql://ana:{password}@h/d?x=1&x=2",
        f"postgresql://ana:{password}@h/d\0",
        f"postgresql://ana:{password}@{'h' * 5_000}/d",
    ):
        refused(broken)


def test_a_password_on_a_store_that_has_none_is_not_shown_either(tmp_path):
    for url in (f"sqlite://ana:{CANARY}@host/{tmp_path}/x.db", f"memory://ana:{CANARY}@x?namspace=y"):
        with pytest.raises(ApportionError) as caught:
            asyncio.run(connect(url))
        assert CANARY not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    ("url", "part"),
    [
        (f"sqlite://ana:{CANARY}@/work.db", "user"),
        (f"sqlite://:{CANARY}@/work.db", "password"),
        ("sqlite://host/work.db", "path"),
        (f"memory://ana:{CANARY}@x", "user"),
        (f"memory://:{CANARY}@x", "password"),
        ("memory://x:80", "port"),
        ("memory://x,y", "host"),
        (f"memory://x/{CANARY}", "path"),
        (f"etcd://x/{CANARY}", "path"),
        ("postgresql://x", "path"),
        (f"postgresql://ana:{CANARY}@x/", "path"),
    ],
)
def test_a_part_that_this_kind_of_store_does_not_use_is_refused_by_name(url, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for ask in (administration, lambda url: asyncio.run(connect(url))):
        with pytest.raises(InvalidInput) as caught:
            ask(url)
        assert f"{part} of the store URL" == caught.value.field
        assert CANARY not in str(caught.value) + repr(caught.value)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("port", ["0", "65536", "-1", "1.5", "\u0661", "0x10"])
def test_what_is_no_number_of_a_port_is_refused(port):
    assert "port of the store URL" == refused(f"etcd://h:{port}").field


@pytest.mark.parametrize("host", ["[::1", "[::1:2379", "h,[::1"])
def test_an_address_whose_bracket_is_not_closed_is_refused(host):
    assert "host of the store URL" == refused(f"etcd://{host}/d").field


@pytest.mark.parametrize("port", [1, 65_535])
def test_the_first_and_the_last_port_are_taken(port):
    assert (("h", port), ("::1", port)) == parsed(f"etcd://h:{port},[::1]:{port}").hosts


@pytest.mark.parametrize(
    ("url", "near"), [("sqlit:///a", "sqlite"), ("postgres://h/d", "postgresql"), ("ETCD://h", "etcd")]
)
def test_an_unknown_scheme_is_answered_with_the_nearest(url, near):
    error = refused(url)
    assert isinstance(error, UnknownOption)
    assert near == error.nearest


@pytest.mark.parametrize(
    "url", ["", "work.db", "sqlite:work.db", "://", None, 7, b"sqlite:///a", "sqlite:///a\0b", "sqlite:///a.db\n"]
)
def test_what_is_no_url_is_refused(url):
    refused(url)


def test_a_url_without_a_password_is_shown_as_it_was_given():
    assert "store URL is 'work.db', expected scheme" in str(refused("work.db"))


def test_a_url_of_4096_characters_is_taken_and_a_longer_one_is_not():
    assert 4096 == len(str(parsed("sqlite:///".ljust(4096, "a"))))
    refused("sqlite:///".ljust(4097, "a"))


@given(text=st.text(max_size=40))
def test_any_text_after_a_scheme_is_parsed_or_refused(text):
    try:
        found = parsed(f"postgresql://{text}")
    except InvalidInput:
        return
    assert isinstance(str(found), str)
