"""Clear text: a warning about requests and passwords that leave this machine unencrypted.

The warning appears even if the user chose clear text on purpose.
Promises: the log warns once per process and store when requests may go in clear text to another host. The warning also
names the change of the URL that encrypts them. A Unix socket and a loopback address count as this machine.
Refuses: to block a connection in clear text. The network may be private, or may encrypt by itself.
"""

import logging
from ipaddress import ip_address

from apportion.stores.spec import StoreSpec
from apportion.stores.url import StoreUrl

logger: logging.Logger = logging.getLogger("apportion.store")
_said: set[str] = set()


def hosts_in_clear(spec: StoreSpec, url: StoreUrl) -> tuple[str, ...]:
    """Return the other hosts that requests may reach in clear text, in order."""
    if not spec.is_clear(url):
        return ()
    named = url.option("host")
    hosts = named.split(",") if named else [host for host, _ in url.hosts]
    return tuple(host for host in hosts if not _is_here(host))


def say_clear_text(spec: StoreSpec, url: StoreUrl) -> None:
    """Log, once per process and store, a warning that the requests may go in clear text."""
    hosts = hosts_in_clear(spec, url)
    if hosts and str(url) not in _said:
        _said.add(str(url))
        words = "requests to %s may go in clear text, the password included. To encrypt them, %s"
        logger.warning(words, ", ".join(hosts), spec.encryption)


def _is_here(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
