"""Store URLs: the place of a store, and the user of the connection, in one line of a configuration.

    memory://name    sqlite:///relative/file    sqlite:////absolute/file    postgresql://user:password@host:5432/database
    etcd://host:2379,host2:2379    etcds://user:password@host:2379    redis://:password@host:6379/0

Each takes `?namespace=`, so that several uses share one store. A password may be plain or percent-encoded. A plain
password may contain `@`, `:`, `/`, `%` and blanks, but no `?`: write `%3F` instead. In an option, write `%40` for an
`@`. No `repr`, no message and no `str(url)` shows the password. `repr` and `str(url)` omit the options too.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import parse_qsl, unquote

from apportion.errors import InvalidInput, UnknownOption, nearest
from apportion.stores.requests import Space

DEFAULT_NAMESPACE = "apportion"
Part = Literal["user", "password", "host", "port", "path"]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl:
    """The parts of a store's URL. `str()` gives the URL without user and password."""

    scheme: str
    user: str = ""
    password: str = field(default="", repr=False)
    hosts: tuple[tuple[str, int | None], ...] = ()
    path: str = ""
    namespace: str = DEFAULT_NAMESPACE
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def host(self) -> str:
        """The name of the first host, empty when there is no host."""
        return self.hosts[0][0] if self.hosts else ""

    def option(self, name: str, default: str = "") -> str:
        """Return an option of the query, or the default."""
        return dict(self.options).get(name, default)

    def canonical(self) -> "StoreUrl":
        """Return the same URL for all its spellings: options sorted, the path of a file absolute and without links."""
        path = os.path.realpath(self.path) if self.scheme == "sqlite" else self.path
        return replace(self, path=path, options=tuple(sorted(each for each in self.options if each[0] != "namespace")))

    def expect(self, *, options: Iterable[str], parts: tuple[Part, ...]) -> None:
        """Raise `UnknownOption` or `InvalidInput` for an option or a part that this kind of store does not use."""
        known = (*options, "namespace")
        for name, _ in self.options:
            if name not in known:
                shown = name if nearest(name, known) else "(not shown)"  # it may be the rest of a password
                raise UnknownOption(f"option of a {self.scheme}:// URL", shown, known)
        given: dict[Part, object] = {
            "user": self.user,
            "password": self.password,
            "host": self.host,
            "port": any(port for _, port in self.hosts),
            "path": self.path,
        }
        for part, value in given.items():
            if value and part not in parts:
                expected = f"none, because {self.scheme}:// takes none"
                raise InvalidInput(f"{part} of the store URL", "(not shown)", expected, "Leave it out.")

    def __str__(self) -> str:
        hosts = ",".join(_written(host, port) for host, port in self.hosts)
        slash = "/" if self.path or self.scheme == "sqlite" else ""
        return f"{self.scheme}://{hosts}{slash}{self.path}"


def parse(url: str, *, schemes: Iterable[str]) -> StoreUrl:
    """Parse a URL. `UnknownOption` names the nearest scheme, and `InvalidInput` the mistake; neither shows a secret."""
    said = "(not shown)" if isinstance(url, str) and {"@", "?"} & {*url} else url  # an option may be a password
    if not isinstance(url, str) or _CONTROL.search(url) or len(url) > 4096:
        expected = "a str of at most 4096 characters without control characters"
        raise InvalidInput("store URL", said, expected, "Write sqlite:///work.db, without a line end.")
    scheme, mark, rest = url.partition("://")
    if not mark:
        hint = "Write for example sqlite:///work.db or postgresql://user@host/database"
        raise InvalidInput("store URL", said, "scheme://…", hint)
    if scheme not in set(schemes):
        shown = "(not shown)" if {":", "@"} & {*scheme} else scheme  # text before the slashes may hold a password
        raise UnknownOption("scheme of a store URL", shown, schemes)
    before, _, query = rest.partition("?")
    if "@" in query:
        hint = "Write %3F for a '?' of the password, and %40 for an '@' of an option."
        raise InvalidInput("store URL", "(not shown)", "no '@' after the first '?'", hint)
    authority, path = _divided(before)
    credentials, at, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":") if at else ("", "", "")
    options = _options(query)
    namespace = dict(options).get("namespace", DEFAULT_NAMESPACE)
    Space(namespace)
    return StoreUrl(
        scheme=scheme,
        user=_decoded(user),
        password=_decoded(password),
        hosts=tuple(_host(each) for each in hosts.split(",")) if hosts else (),
        path=unquote(path),
        namespace=namespace,
        options=options,
    )


def _divided(before: str) -> tuple[str, str]:
    """Divide at the first slash after the last `@`: earlier slashes belong to the password. A file needs no host."""
    if before.startswith("/"):
        return "", before[1:]
    credentials, at, after = before.rpartition("@")
    hosts, _, path = after.partition("/")
    return credentials + at + hosts, path


def _decoded(text: str) -> str:
    """Decode a text in which every `%` begins an escape such as `%40`. A text with another `%` stays as it is."""
    return unquote(text) if text.count("%") == len(_ESCAPED.findall(text)) else text


def _options(query: str) -> tuple[tuple[str, str], ...]:
    pairs = parse_qsl(query, keep_blank_values=True)
    for index, (name, _) in enumerate(pairs):
        if name in dict(pairs[:index]):
            raise InvalidInput("option of the store URL", name, "each option once", "Drop one of the two.")
    return tuple(pairs)


def _host(text: str) -> tuple[str, int | None]:
    if text.startswith("[") and "]" not in text:
        raise InvalidInput("host of the store URL", "(not shown)", "a ']' after the '['", "Write [::1]:5432")
    name, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        name, port = text, ""
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        hint = "A ':' or '@' in a password needs no encoding as long as an '@' follows it."
        raise InvalidInput("port of the store URL", "(not shown)", "a number in 1 .. 65535", hint)
    return name.strip("[]"), int(port) if port else None


def _written(host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"
