"""URLs of a shard: kept without a password, and filled in from the environment of each process.

Refuses: passwords. Write `${NAME}`. No error shows a URL, because a text that is no URL may have a secret anywhere.
"""

import os
import re
from urllib.parse import unquote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from apportion.errors import InvalidInput

_PASSWORD = re.compile(r"://[^/@]*:(?!\$\{\w+\}@)[^/]*@|[?&]password=(?!\$\{\w+\}(?:&|$))")
_NAME = re.compile(r"\$\{(\w+)\}")


def parsed(address: str) -> URL:
    """Return the parts of a URL. The path of a file is percent-decoded, as in every version of SQLAlchemy since 2.1.

    >>> parsed("sqlite:////srv/my%20shop.db").database
    '/srv/my shop.db'
    """
    url = make_url(address)
    if url.get_backend_name() != "sqlite" or not url.database:
        return url
    return url.set(database=unquote(address.partition(":///")[2].partition("?")[0]))


def check_no_password(url: str, subject: str) -> None:
    """Raise `InvalidInput` for a URL with a password."""
    if _PASSWORD.search(url):
        hint = "Write postgresql://user:${PASSWORD}@host/database; each process fills it in from its environment."
        raise InvalidInput(subject, "(not shown)", "one without a password", hint)


def check_server(url: str, subject: str) -> None:
    """Raise `InvalidInput` for a URL that names no database of PostgreSQL."""
    if url.partition("://")[0].partition("+")[0] != "postgresql" or "://" not in url:
        hint = "Write postgresql://user:${PASSWORD}@host/database. Files of SQLite have no replication."
        raise InvalidInput(subject, "(not shown)", "the URL of a database of PostgreSQL", hint)


def address_in(url: str, subject: str) -> str:
    """Return a URL with the values of the environment.

    `InvalidInput` for a variable that is not set, and for a text that is no URL. `InvalidInput` also for a value with
    an `@`: the URL would be cut there.
    """
    for match in _NAME.finditer(url.rpartition("@")[0]):
        if "@" in _from_environment(match):
            expected = "a value with %40 in place of @"
            hint = "Percent-encode it: python -c 'from urllib.parse import quote; print(quote(input(), safe=\"\"))'"
            raise InvalidInput(f"environment variable {match[1]}", "(not shown)", expected, hint)
    address = _NAME.sub(_from_environment, url)
    try:
        make_url(address)
    except (ArgumentError, ValueError):  # The error shows parts of the text, which may be secrets.
        hint = "Look at the record: apportion shards status URL SET. Check the variables that it names."
        raise InvalidInput(subject, "(not shown)", "dialect://user@host:port/database", hint) from None
    return address


def _from_environment(match: re.Match[str]) -> str:
    value = os.environ.get(match[1])
    if value is None:
        raise InvalidInput(f"environment variable {match[1]}", None, "a value for a shard's URL", "Set it, and retry.")
    return value
