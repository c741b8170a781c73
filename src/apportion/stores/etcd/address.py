"""Where the servers of an etcd URL are, and whom to trust there.

Promises: with `etcds` the server's certificate and name are always checked; there is no option to leave that out.
"""

import ssl

import httpx

from apportion.errors import InvalidInput
from apportion.stores.url import StoreUrl

_PORT = 2379


def endpoints(url: StoreUrl) -> tuple[httpx.URL, ...]:
    """Return where each server is."""
    return tuple(_endpoint(url, host, port) for host, port in url.hosts)


def _endpoint(url: StoreUrl, host: str, port: int | None) -> httpx.URL:
    scheme = "https" if url.scheme == "etcds" else "http"
    try:
        return httpx.URL(scheme=scheme, host=host, port=port or _PORT, path="/")
    except httpx.InvalidURL as error:
        raise InvalidInput("host of the store URL", host, "a name or an address", "Write etcd://host:2379") from error


def tls(url: StoreUrl) -> ssl.SSLContext | bool:
    """Return who is trusted and who we are; False for a URL that speaks no TLS."""
    if url.scheme != "etcds":
        return False
    ca, certificate, key = url.option("ca"), url.option("cert"), url.option("key")
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            context.load_cert_chain(certificate, key or None, password="")  # never ask the terminal for one
    except OSError as error:  # ssl.SSLError is one
        named = f"ca={ca} cert={certificate} key={key}"
        raise InvalidInput(
            "TLS files of the store URL", named, "readable PEM files", f"Look at them: {error}"
        ) from error
    return context
