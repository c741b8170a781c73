"""Names: the beginning of a group's or table's name decides its store.

The longest prefix of a name wins. A name is compared with a slash at its end, and no name contains a slash. So the
prefix `events/` stands for the one name `events`, and `events` for all names that begin so. Keys without a name of a
group, a table or a set of shards belong to the prefix "".
Promises: all keys of one name belong to one prefix.
Source: kube-apiserver's `--etcd-servers-overrides` (Go, Apache-2.0), which keeps events in a cluster of their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from apportion.errors import InvalidInput
from apportion.model.topology import check_name
from apportion.stores.catalog import check_url, parsed_url

ROOMS = (
    "group",
    "guard",
    "kept",
    "live",
    "load",
    "replicas",
    "shards",
    "table",
)  # the first parts of keys with a name as their second part


class NamePrefixes:
    """The prefixes of names, each of which has a store.

    >>> prefixes = NamePrefixes(["", "events", "events-eu", "users/"])
    >>> [prefixes.of_name(name) for name in ("event", "events", "events-1", "events-eu-1", "users", "users-1")]
    ['', 'events', 'events', 'events-eu', 'users/', '']
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self.all: tuple[str, ...] = tuple(sorted(prefixes))
        self._longest_first = sorted(self.all, key=len, reverse=True)

    def of_name(self, name: str) -> str:
        """Return the prefix of a name. O(prefixes)."""
        return next(each for each in self._longest_first if f"{name}/".startswith(each))

    def of_key(self, key: str) -> str:
        """Return the prefix of the name in a key.

        >>> prefixes = NamePrefixes(["", "events"])
        >>> prefixes.of_key("live/events-1/own/7"), prefixes.of_key("table/users/head"), prefixes.of_key("events-1")
        ('events', '', '')
        """
        room, _, rest = key.partition("/")
        return self.of_name(rest.partition("/")[0]) if room in ROOMS else ""

    def of_keys_under(self, start: str) -> frozenset[str]:
        """Return the prefixes of all possible keys that begin with a text.

        >>> prefixes = NamePrefixes(["", "events"])
        >>> [sorted(prefixes.of_keys_under(start)) for start in ("live/events-1/", "group/ev", "table/", "jobs/")]
        [['events'], ['', 'events'], ['', 'events'], ['']]
        """
        room, slash, rest = start.partition("/")
        if not slash:
            return frozenset(self.all if any(each.startswith(room) for each in ROOMS) else [""])
        if room not in ROOMS or "/" in rest:
            return frozenset([self.of_key(start)])
        shortest = next(each for each in self._longest_first if rest.startswith(each))
        return frozenset([shortest, *(each for each in self.all if each.startswith(rest))])


def url_by_prefix(urls: Mapping[str, str], name: str) -> str:
    """Return the URL of the store for a name: the one under the longest prefix of the name.

    A group opens this URL, and so depends on no other store. Raises `InvalidInput` or `UnknownOption` for a wrong
    mapping or name.

    >>> url_by_prefix({"": "sqlite:///all.db", "events": "sqlite:///events.db"}, "events-1")
    'sqlite:///events.db'
    """
    if "/" in check_name("name", name):
        raise InvalidInput("name", name, "no slash", "Pass the name of a group or table, and not a key.")
    return urls[checked_urls(urls).of_name(name)]


def checked_urls(urls: Mapping[str, str]) -> NamePrefixes:
    """Return the prefixes of a mapping from prefixes to the URLs of their stores.

    `InvalidInput` for a mapping without "", a prefix that no name can have, an invalid URL, and a store that two
    prefixes have. `UnknownOption` for a scheme or an option of a URL.
    """
    if not isinstance(urls, Mapping):
        hint = 'Write {"": "etcd://a", "events": "etcd://b"}.'
        raise InvalidInput("urls", type(urls).__name__, "a mapping from prefixes of names to URLs", hint)
    known = dict[object, str]()
    for prefix, url in urls.items():
        _check_prefix(prefix)
        check_url(url)
        store = replace(parsed_url(url).canonical(), user="", password="", options=())
        if store in known:
            expected = f"a store of its own, but it has that of prefix {known[store]!r}"
            raise InvalidInput(
                f"store of prefix {prefix!r}", str(store), expected, "Add ?namespace= to one of the URLs."
            )
        known[store] = prefix
    if "" not in urls:
        hint = 'Add "": it gets the names that no other prefix begins.'
        raise InvalidInput("prefixes", ", ".join(urls) or "(none)", 'one of them ""', hint)
    return NamePrefixes(urls)


def _check_prefix(prefix: object) -> None:
    if isinstance(prefix, str) and (prefix == "/" or "/" in prefix.removesuffix("/")):
        hint = "Names have no slash. A slash at the end stands for the end of the name."
        raise InvalidInput("prefix", prefix, "a beginning of names, with a slash at most at its end", hint)
    if prefix != "":
        check_name("prefix", prefix)
