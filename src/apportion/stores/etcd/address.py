"""The addresses of the servers in an etcd URL, and the TLS context for them.

Promises: with `etcds` the server's certificate and name are always checked; no option switches the check off.
"""

import ssl

import httpx

from apportion.errors import InvalidInput
from apportion.stores.url import StoreUrl

_PORT = 2379


def endpoints(url: StoreUrl) -> tuple[httpx.URL, ...]:
    """Return the address of each server."""
    return tuple(_endpoint(url, host, port) for host, port in url.hosts)


def _endpoint(url: StoreUrl, host: str, port: int | None) -> httpx.URL:
    scheme = "https" if url.scheme == "etcds" else "http"
    try:
        return httpx.URL(scheme=scheme, host=host, port=port or _PORT, path="/")
    except httpx.InvalidURL as error:
        raise InvalidInput("host of the store URL", host, "a name or an address", "Write etcd://host:2379") from error


def tls(url: StoreUrl) -> ssl.SSLContext | bool:
    """Return a TLS context with the trusted authorities and our own certificate; False for a URL without TLS."""
    if url.scheme != "etcds":
        return False
    ca, certificate, key = url.option("ca"), url.option("cert"), url.option("key")
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            context.load_cert_chain(certificate, key or None, password="")  # never ask the terminal for a password
    except OSError as error:  # ssl.SSLError is one
        named = f"ca={ca} cert={certificate} key={key}"
        hint = f"Look at them: {error}"
        raise InvalidInput("TLS files of the store URL", named, "readable PEM files", hint) from error
    return context
